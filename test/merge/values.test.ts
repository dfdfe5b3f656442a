import { test } from 'tap'
import { offer, rowOf } from './offers.js'

const numeric = { value_type: 'numeric', range: { min: 0, max: 100 } } as const
const categorical = { value_type: 'categorical' as const, categories: ['low', 'high'] }

test("the values of a signal are of the type that its row says, and nobody's else", (t) => {
  const binary = rowOf([offer('north', numeric), offer('south', categorical)], {
    definition: { value_type: 'binary' },
  })
  t.equal(binary.value_type, 'binary')
  t.notOk('range' in binary, 'the provider says that it has no range')
  t.notOk('categories' in binary)
  t.match(binary.ext.tributary, { conflicts: [{ field: 'value_type', upstreams: ['north', 'south'] }] })

  const first = rowOf([offer('north', categorical), offer('south', numeric)])
  t.match(first, categorical)
  t.notOk('range' in first, 'of two upstreams the first says what it is')
  t.end()
})

test('who says the same type, or none, may say the values', (t) => {
  const definition = { value_type: 'categorical' } as const
  const row = rowOf([offer('north', numeric), offer('south', { categories: ['a'] })], { definition })
  t.same(row.categories, ['a'])
  t.notOk('range' in row)
  t.same(rowOf([offer('north', categorical)], { definition }).categories, ['low', 'high'])
  t.same(rowOf([offer('north'), offer('south', numeric)]).range, { min: 0, max: 100 })
  t.end()
})
