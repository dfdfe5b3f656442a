/** What an answer says in words of its first rows is read from the bytes of the page, whatever strangers wrote into them. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { endOfString } from '../../src/adcp/json.js'
import { firstRows } from '../../src/server/answer/payload.js'
import { hostileText } from '../support/hostile-text.js'
import { proven } from '../support/proven.js'

const NEEDED = [
  'signal_agent_segment_id',
  'name',
  'signal_type',
  'data_provider',
  'coverage_percentage',
  'deployments',
  'pricing_options',
]
const text = fc.oneof(
  hostileText,
  fc.string(),
  fc.array(hostileText, { maxLength: 30 }).map((all) => all.join('')),
)
const anything = fc.oneof(text, fc.jsonValue({ maxDepth: 3 }))
const anyRow = fc.record(
  {
    signal_agent_segment_id: fc.string(),
    signal_ref: fc.record({ scope: text, signal_id: text }),
    ...{
      name: text,
      description: text,
      data_provider: text,
      coverage_percentage: fc.double({ noNaN: true }),
    },
    ...{ taxonomy: anything, deployments: fc.array(anything), ext: anything, pricing_options: anything },
  },
  { requiredKeys: ['signal_agent_segment_id', 'signal_ref'] },
)

test('the first rows of a page are read from its bytes, however these are divided', (t) => {
  const property = fc.property(
    fc.array(anyRow, { maxLength: 5 }),
    fc.integer({ min: 1, max: 4 }),
    fc.array(fc.nat(2_000), { maxLength: 4 }),
    (rows, most, cuts) => {
      const json = rows.map((row) => JSON.stringify(row))
      const bytes = Buffer.from(json.join())
      const places = [
        0,
        ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b),
        bytes.length,
      ]
      const parts = places.slice(1).map((end, at) => bytes.subarray(places[at], end))
      const found = firstRows(parts, most)
      const expected = json.slice(0, most).map((one) => {
        const row = JSON.parse(one) as Record<string, unknown>
        return Object.fromEntries(NEEDED.filter((name) => name in row).map((name) => [name, row[name]]))
      })
      assert.deepEqual(
        found.rows.map((row) =>
          Object.fromEntries(NEEDED.filter((name) => name in row).map((name) => [name, row[name]])),
        ),
        expected,
      )
      assert.equal(found.more, rows.length > most)
    },
  )
  t.doesNotThrow(() => proven(t, 300, property))
  t.end()
})

test('of bytes that end within a row, the rows before it are told', (t) => {
  const parts = ['{"name":"a"},{"na', 'me":"b'].map((part) => Buffer.from(part))
  t.same(firstRows(parts, 3), { rows: [{ name: 'a' }], more: true })
  t.end()
})

test('the end of a string is found behind any number of backslashes, near and far', (t) => {
  const property = fc.property(text, text, fc.boolean(), (value, after, isShared) => {
    const json = JSON.stringify(value)
    const plain = Buffer.from(`${json}${after}"`)
    const bytes = isShared ? new Uint8Array(new SharedArrayBuffer(plain.byteLength)) : plain
    bytes.set(plain)
    return endOfString(bytes, 0) === Buffer.byteLength(json)
  })
  proven(t, 300, property)
  for (const open of ['"', '"\\"', `"${'\\'.repeat(61)}"`, `"${'a'.repeat(40)}\\"`, `"${'a'.repeat(31)}\\"`])
    t.equal(endOfString(Buffer.from(open), 0), -1, open)
  t.end()
})
