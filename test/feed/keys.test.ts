/** The order of the feed, and the handles that its keys begin. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { type Identity, identityKey, keyHandle, putIdentity, signalHandle } from '../../src/merge/identity.js'
import { compareKeys, sortedPositions, WORDS } from '../../src/merge/keys.js'
import { anyText, anyUrl } from '../support/any-text.js'
import { proven } from '../support/proven.js'

const anyIdentity = fc.oneof(
  fc.record({ kind: fc.constant('provider' as const), domain: fc.string(), id: fc.string() }),
  fc.record({
    kind: fc.constant('native' as const),
    agentUrl: anyUrl(),
    segment: anyText(),
  }),
)

test('the handle that a key begins is the handle of its identity', (t) => {
  const keys = new Uint32Array(WORDS * 2)
  const property = fc.property(anyIdentity, (identity: Identity) => {
    const rest = putIdentity(keys, 1, identity)
    assert.equal(keyHandle(keys, 1, rest), signalHandle(identityKey(identity)))
  })
  t.doesNotThrow(() => proven(t, 500, property))
  t.end()
})

/** Few different words, so that keys are equal, begin alike, and fill long runs. */
const anyKey = fc.array(fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1), { minLength: WORDS, maxLength: WORDS })
const anyKeys = fc.tuple(
  fc.array(anyKey, { maxLength: 200 }),
  fc.array(fc.array(fc.nat({ max: 2 ** 32 - 1 }), { minLength: WORDS, maxLength: WORDS }), {
    maxLength: 200,
  }),
)

test('keys are put in order, and equal ones keep theirs', (t) => {
  const property = fc.property(anyKeys, ([alike, random]) => {
    const keys = Uint32Array.from([...alike, ...random].flat())
    const order = [...sortedPositions(keys)]
    const expected = order.map((_, at) => at).sort((a, b) => compareKeys(keys, a, keys, b) || a - b)
    assert.deepEqual(order, expected)
  })
  t.doesNotThrow(() => proven(t, 200, property))
  t.end()
})
