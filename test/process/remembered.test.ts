/** What is remembered of a text is what was found for that text, whatever else lies beside it and came before. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { createKnownTexts, rememberedBytes, wholeMemory } from '../../src/process/remembered.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'

const START = 'x'.repeat(64)
/** Two that have one number (`rememberedBytes`). */
const COLLIDING = ['"40muvv"', '"865k2y"']
/** Some begin alike, or go on where another ends. */
const anyKnown = fc.oneof(
  fc.constantFrom(...COLLIDING),
  fc.constantFrom(
    '',
    'a',
    `${START}{"a":1}`,
    `${START}{"a":2}`,
    `${START}{"a":1}}`,
    `${START}{"b"}`,
    'b'.repeat(600),
  ),
  anyText({ maxLength: 80 }),
)
const anyScene = fc.array(fc.tuple(anyKnown, fc.nat({ max: 9 })), { minLength: 1, maxLength: 40 })

test('a text gets what was found for it', (t) => {
  let made = 0
  const itself = rememberedBytes((text) => {
    made += 1
    return text
  })
  const property = fc.property(anyScene, (scene) => {
    for (const [text, before] of scene) {
      const bytes = Buffer.from(`${'-'.repeat(before)}${text}---`)
      const start = bytes.byteOffset + before
      const end = start + Buffer.byteLength(text)
      assert.equal(itself(wholeMemory(bytes), start, end), Buffer.from(text).toString())
    }
  })
  t.doesNotThrow(() => proven(t, 300, property))
  made = 0
  for (let time = 0; time < 10; time += 1) {
    const bytes = Buffer.from('["a text that comes again"]')
    itself(wholeMemory(bytes), bytes.byteOffset, bytes.byteOffset + bytes.length)
  }
  t.ok(made <= 1, 'found once')
  t.end()
})

test('a known text is found where it stands, and nowhere else', (t) => {
  const known = createKnownTexts()
  const kept = new Set<string>()
  let found = 0
  const property = fc.property(anyScene, (scene) => {
    for (const [text, after] of scene) {
      const whole = `${text}${'-'.repeat(after)}`
      const bytes = Buffer.from(whole)
      const start = bytes.byteOffset
      const end = known.endOf(wholeMemory(bytes), start, start + bytes.length)
      if (end > 0) {
        found += 1
        assert.ok(kept.has(bytes.subarray(0, end - start).toString('latin1')))
      }
      const length = Buffer.byteLength(text)
      known.keep(wholeMemory(bytes), start, start + length)
      kept.add(bytes.subarray(0, length).toString('latin1'))
    }
  })
  t.doesNotThrow(() => proven(t, 300, property))
  t.ok(found > 50, `${found} were found`)
  t.end()
})
