import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { drained } from '../../src/process/portions.js'
import { jsonBytes } from '../../src/server/answer/large-json.js'
import { proven } from '../support/proven.js'

test('writes what JSON.stringify writes', async (t) => {
  await proven(
    t,
    200,
    fc.property(fc.oneof(fc.object({ withNullPrototype: false }), fc.array(fc.jsonValue())), (value) => {
      assert.equal(String(drained(jsonBytes(value))), JSON.stringify(value))
    }),
  )
  const absent = { a: undefined, b: { c: undefined }, 'ü"': ['\u2028'] }
  t.equal(String(drained(jsonBytes(absent))), JSON.stringify(absent))
})

test('stops as often as there is more to write', (t) => {
  const stops = (offers: number) => {
    const work = jsonBytes({
      offers: Array.from({ length: offers }, (_, at) => ({ at, keys: ['x'.repeat(200)] })),
    })
    let count = 0
    while (!work.next().done) count += 1
    return count
  }
  t.ok(stops(20_000) > 3.5 * stops(5_000) && stops(5_000) > 5, `${stops(5_000)}, then ${stops(20_000)}`)
  t.end()
})
