/** Numbers of texts under the key of this process. */
import fc from 'fast-check'
import { test } from 'tap'
import { type NumberKey, putKeyed, wholeMemory } from '../../src/process/remembered.js'
import { proven } from '../support/proven.js'

/** Of the bytes, which stand behind so many others. */
function numberOf(bytes: Uint8Array, behind = 0, key?: NumberKey): string {
  const memory = wholeMemory(Uint8Array.from([...new Uint8Array(behind), ...bytes, 7]))
  const words = new Uint32Array(4)
  putKeyed(words, 1, memory, behind, behind + bytes.length, key)
  return Buffer.from(words.buffer, 8).toString('hex')
}

test('the numbers are those that the authors of HalfSipHash publish for their key', (t) => {
  const key = [0x03020100, 0x07060504] as const
  const first = (length: number) =>
    numberOf(
      Uint8Array.from({ length }, (_, at) => at),
      0,
      key,
    )
  t.equal(first(0), '218d1f59b9b83cc8')
  t.equal(first(1), 'be552412f8387315')
  t.equal(first(3), 'ce0f1a45f7060679')
  t.equal(first(4), 'd5e78a175be52ea1', 'a whole word')
  t.equal(first(63), '2ea63c71bf326087')
  t.end()
})

test('a number is of the bytes alone, wherever they lie, and of all of them', (t) => {
  const flip = (bytes: Uint8Array, at: number) => bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))
  const property = fc.property(
    fc.uint8Array({ minLength: 1, maxLength: 40 }),
    fc.nat({ max: 9 }),
    fc.nat(),
    (bytes, behind, at) =>
      numberOf(bytes) === numberOf(bytes, behind) &&
      numberOf(bytes) !== numberOf(flip(bytes, at % bytes.length)) &&
      numberOf(bytes) !== numberOf(Uint8Array.from([...bytes, 0])),
  )
  t.doesNotThrow(() => proven(t, 300, property))
  t.end()
})

test('the key is not one that anybody could know', (t) => {
  t.not(numberOf(Buffer.from('segment')), numberOf(Buffer.from('segment'), 0, [0, 0]))
  t.end()
})
