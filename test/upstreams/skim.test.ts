import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { isCut, skim } from '../../src/upstreams/agent/skim.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'

/** The message as it was, put together from what skimming gave. */
function restored(text: string): unknown {
  const { value, rows } = skim(Buffer.from(text))
  const parsed = rows.map((row) => JSON.parse(Buffer.from(row).toString()))
  return JSON.parse(JSON.stringify(value), (_, each) => (isCut(each) ? parsed : each))
}

test('whatever surrounds the rows and stands in them, nothing is lost and nothing moves', async (t) => {
  const strings = fc.oneof(
    anyText(),
    fc.constantFrom('"signals":[', '\\"signals\\":[1]', '\\', 'signals', '"'),
  )
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      strings,
      tie('list'),
      tie('object'),
    ),
    list: fc.array(tie('value'), { maxLength: 4 }),
    object: fc.dictionary(fc.oneof(strings, fc.constant('signals')), tie('value'), { maxKeys: 4 }),
  })).value
  const rows = fc.array(json, { maxLength: 5 })
  const spaces = fc.constantFrom(undefined, 2, '\t')
  proven(
    t,
    150,
    fc.property(json, rows, json, spaces, (before, signals, after, space) => {
      const message = { before, result: { structuredContent: { a: 1, signals, after } } }
      const text = JSON.stringify(message, null, space)
      return isDeepStrictEqual(restored(text), JSON.parse(text))
    }),
  )
})

test('the rows of a page are cut out as they were written', async (t) => {
  const { value, rows } = skim(Buffer.from('{"result":{"signals" : [ {"a":"]}\\"" } , {"b":[{}]} ] ,"x":1}}'))
  t.same(
    rows.map((row) => Buffer.from(row).toString()),
    ['{"a":"]}\\"" }', '{"b":[{}]}'],
  )
  t.ok(isCut((value as { result: { signals: unknown } }).result.signals))
})

test('a string of any length ends where it ends, with escapes in the message or without', async (t) => {
  for (const more of ['', '\n']) {
    for (let length = 0; length < 80; length += 1) {
      const signals = [{ a: `${'x'.repeat(length)}]},{` }, more, { b: ['}'.repeat(length)] }]
      const json = JSON.stringify({ signals, behind: 'y'.repeat(length) })
      const rows = skim(Buffer.from(json)).rows.map((row) => JSON.parse(Buffer.from(row).toString()))
      t.same(rows, signals, `${length} characters`)
      const open = json.slice(0, json.indexOf(']},{'))
      t.throws(() => skim(Buffer.from(open)), SyntaxError, 'one that never closes is no JSON')
    }
  }
})

test('an answer has 100,000 rows at most', async (t) => {
  const listing = (rows: number) => Buffer.from(`{"signals":[${Array(rows).fill(1)}]}`)
  t.equal(skim(listing(100_000)).rows.length, 100_000)
  t.throws(() => skim(listing(100_001)), RangeError)
})

test('JSON quoted in a text is not mistaken for rows', async (t) => {
  const message = {
    content: [{ text: JSON.stringify({ signals: [{ a: 1 }] }) }],
    scope: 'signals',
    list: ['signals'],
  }
  const { value, rows } = skim(Buffer.from(JSON.stringify(message)))
  t.same(value, message)
  t.same(rows, [])
})

test('two candidate arrays are no candidate', async (t) => {
  const message = { context: { signals: [1] }, result: { signals: [2] } }
  const { value, rows } = skim(Buffer.from(JSON.stringify(message)))
  t.same(value, message)
  t.same(rows, [])
})

test('what is not JSON is refused, wherever it breaks', async (t) => {
  const text = '{"result":{"signals":[{"a":1}]}}'
  for (let length = 0; length < text.length; length++)
    t.throws(() => skim(Buffer.from(text.slice(0, length))), SyntaxError)
})

test('a row that is not JSON is found when it is read, not before', async (t) => {
  const { value, rows, whole } = skim(Buffer.from('{"result":{"signals":[{"a":1},{"b":nonsense}]}}'))
  t.equal(rows.length, 2)
  t.ok(isCut((value as { result: { signals: unknown } }).result.signals))
  t.equal(whole(), undefined)
})

test('text behind a row belongs to it, so that the row is no JSON', async (t) => {
  const texts = ['{"a":1} junk', '{"a":1} "more"', '{"a":1}{"b":2}', '{"a":1}0', '["a"]:2']
  const { rows } = skim(Buffer.from(`{"result":{"signals":[${texts.join(' , ')} ]}}`))
  t.same(
    rows.map((row) => Buffer.from(row).toString()),
    texts,
  )
  for (const text of texts) t.throws(() => JSON.parse(text), SyntaxError)
})

test('lists that came before end where they end, whatever follows', (t) => {
  const list = `[{"type":"platform","platform":"${'x'.repeat(60)}"},{"a":["]"]}]`
  const ends = [`"d":${list}`, `"d":${list},"e":1`, `"d":${list.slice(0, -1)},2]`, `"d":[${list}]`]
  const rows = [...ends, ...ends].map((members) => `{"n":1,${members}}`)
  for (const some of [rows, [...rows].reverse(), [...rows, '{"n":"\\"[{"}']]) {
    const { rows: found } = skim(Buffer.from(`{"signals":[${some.join()}]}`))
    t.same(
      found.map((row) => Buffer.from(row).toString()),
      some,
    )
  }
  const broken = `{"signals":[{"n":1,"d":${list.slice(0, -1)}`
  t.throws(() => skim(Buffer.from(broken)), SyntaxError)
  t.end()
})
