/**
 * Ids of A2A tasks. The tasks of a process are numbered in one sequence over all callers, so a number in an id would tell a caller
 * of two tasks how many others had in between. Therefore an id holds its number enciphered.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const IDS = /^a2a_[\w-]{16}_[\w-]{1,22}$/
const CIPHER = 'aes-128-ecb' // without a vector: no number comes twice
const BLOCK_BYTES = 16
const LOT = 64 // ids that are enciphered at once: a call for each would take a twentieth of an answer's time

/** Whether it may be the id of a task of any process. */
export const isTaskId = (id: string) => IDS.test(id)

/** Ids of one sequence of numbers, from 0 on. */
export function createTaskIds() {
  const start = `a2a_${randomBytes(12).toString('base64url')}_`
  const key = randomBytes(BLOCK_BYTES)
  const cipher = createCipheriv(CIPHER, key, null).setAutoPadding(false)
  const decipher = createDecipheriv(CIPHER, key, null).setAutoPadding(false)
  const numbers = Buffer.alloc(LOT * BLOCK_BYTES) // each in the first half of its block; the second is zero
  let enciphered = numbers
  let first = Number.NaN // of the numbers in `enciphered`

  function encipher(from: number): void {
    for (let at = 0; at < LOT; at += 1) numbers.writeDoubleBE(from + at, at * BLOCK_BYTES)
    enciphered = cipher.update(numbers)
    first = from
  }

  return {
    idOf(number: number): string {
      const place = number % LOT
      if (number - place !== first) encipher(number - place)
      return start + enciphered.toString('base64url', place * BLOCK_BYTES, (place + 1) * BLOCK_BYTES)
    },
    /** Whether the id begins as those of this sequence. */
    has: (id: string) => id.startsWith(start),
    /** NaN for an id that is not of this sequence. */
    numberOf(id: string): number {
      const text = id.slice(start.length)
      const block = Buffer.from(text, 'base64url')
      const isWhole = block.byteLength === BLOCK_BYTES && block.toString('base64url') === text
      if (!id.startsWith(start) || !isWhole) return Number.NaN
      const plain = decipher.update(block)
      return plain.readDoubleBE(BLOCK_BYTES / 2) === 0 ? plain.readDoubleBE() : Number.NaN
    },
  }
}
