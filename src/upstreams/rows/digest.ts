/** The first 64 bits of SHA-256, as two words: numbers of 64 bits would be an object each. */
import { hash } from 'node:crypto'

function word(digest: string, at: number): number {
  return (
    ((digest.charCodeAt(at) << 24) |
      (digest.charCodeAt(at + 1) << 16) |
      (digest.charCodeAt(at + 2) << 8) |
      digest.charCodeAt(at + 3)) >>>
    0
  )
}

/** The `index`th digest in `words`, which are a BigUint64Array's: its low word comes first. */
export function putDigest(words: Uint32Array, index: number, of: Uint8Array | string): void {
  const digest = hash('sha256', of, 'binary')
  words[index * 2] = word(digest, 4)
  words[index * 2 + 1] = word(digest, 0)
}

/** The words of digests: a view, not a copy. */
export function digestNumbers(digests: BigUint64Array): Uint32Array {
  return new Uint32Array(digests.buffer, digests.byteOffset, digests.length * 2)
}

/** One digest alone. */
export function digestOf(of: Uint8Array | string): bigint {
  const digest = new BigUint64Array(1)
  putDigest(digestNumbers(digest), 0, of)
  return digest[0] as bigint
}

/**
 * A growing set of digests in typed arrays: a set of two million strings takes hundreds of megabytes of heap, this one
 * 32. Digests are as good as random, so a slot is found by their own bits.
 */
const FIRST_SLOTS = 1_024

/** An empty set of digests, 8 bytes for each. */
export function createDigestSet() {
  let slots = new Uint32Array(FIRST_SLOTS * 2) // low and high word of each; a low word of 0 is an empty slot
  let count = 0

  /** Gives whether the digest is new in `table`. */
  function put(table: Uint32Array, low: number, high: number): boolean {
    const mask = table.length / 2 - 1
    let slot = high & mask
    while (table[slot * 2] !== 0) {
      if (table[slot * 2] === low && table[slot * 2 + 1] === high) return false
      slot = (slot + 1) & mask
    }
    table[slot * 2] = low
    table[slot * 2 + 1] = high
    return true
  }

  function grow(): void {
    const larger = new Uint32Array(slots.length * 2)
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0) put(larger, slots[at] as number, slots[at + 1] as number)
    }
    slots = larger
  }

  return {
    /** Gives whether it was not there before. */
    add(low: number, high: number): boolean {
      if (count * 4 >= slots.length) grow()
      const isNew = put(slots, low || 1, high)
      if (isNew) count += 1
      return isNew
    },
  }
}
