import fc from 'fast-check'
import { test } from 'tap'
import { elementSpans } from '../../src/adcp/json.js'
import { createNames, findName, nameAt } from '../../src/authz/rules/name-table.js'
import { proven } from '../support/proven.js'
import { compiled } from './compiled.js'
import { AGENT } from './world.js'

/** JSON with what `JSON.stringify` never writes: members twice, escaped names, space everywhere. */
function written(members: readonly [string, unknown][], escaped: boolean, space: string): string {
  const name = (key: string) =>
    escaped
      ? `"${[...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
      : JSON.stringify(key)
  const text = members.map(
    ([key, value]) =>
      `${space}${name(key)}${space}:${space}${JSON.stringify(value, null, space.length)}${space}`,
  )
  return `${space}{${text.join(',')}${space}}${space}`
}

test('the elements of a list stand where the parser found them', async (t) => {
  const value = fc.oneof(fc.array(fc.jsonValue(), { maxLength: 5 }), fc.jsonValue())
  const members = fc.array(fc.tuple(fc.constantFrom('signals', 'other', 'signa"ls', ''), value), {
    maxLength: 5,
  })
  proven(
    t,
    300,
    fc.property(
      members,
      fc.boolean(),
      fc.constantFrom('', ' ', '\n\t'),
      fc.boolean(),
      (list, escaped, space, mark) => {
        const text = written(list, escaped, space)
        const bytes = new TextEncoder().encode(`${mark ? '\ufeff' : ''}${text}`)
        const { signals } = JSON.parse(text) as { signals?: unknown }
        const found = elementSpans(bytes, ['signals']).map(([begin, end]) =>
          JSON.parse(new TextDecoder().decode(bytes.subarray(begin, end))),
        )
        t.same(found, Array.isArray(signals) ? JSON.parse(JSON.stringify(signals)) : [])
      },
    ),
  )
})

test('every name has its number, and nothing else has one', async (t) => {
  const names = fc.uniqueArray(fc.oneof(fc.string({ unit: 'binary' }), fc.string()), { maxLength: 60 })
  proven(
    t,
    200,
    fc.property(names, fc.string(), (list, other) => {
      const wellFormed = list.filter((name) => !/\p{Surrogate}/u.test(name))
      const building = createNames()
      for (const name of wellFormed) building.add(name)
      const table = building.table()
      for (const [number, name] of wellFormed.entries()) {
        t.equal(findName(table, name), number)
        t.equal(nameAt(table, number), name)
      }
      t.equal(findName(table, other), wellFormed.indexOf(other))
    }),
  )
})

test('a definition is parsed from its own bytes, whatever stands around it', async (t) => {
  const text = `{"signals": [{"id":"s0"}], "\\u0073ignals" :\n[ 7 , {"id":"a","name":"Ü ]}\\"","value_type":"binary"} ,{"id":"b"}],
    "authorized_agents":[{"url":"${AGENT}","authorized_for":"x","authorization_type":"signal_ids","signal_ids":["a"]}]}`
  const { rules } = compiled(text)
  t.equal(rules?.signalNumber('s0'), -1, 'of two members the last counts')
  t.same(rules?.signal(rules.signalNumber('a')).row, { id: 'a', name: 'Ü ]}"', value_type: 'binary' })
  t.same(rules?.signal(rules.signalNumber('b')), { id: 'b', tags: [], row: { id: 'b' }, index: 2 })
})
