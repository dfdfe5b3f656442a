/**
 * The order of the feed: by 128 bits of each identity's digest (merge/identity.ts `handleKey`), four words per key. A
 * digest reveals nothing about who came first, and the order is the same on every replica.
 */
import { type BinaryLike, createHash, hash } from 'node:crypto'
import { type Identity, identityKey, KEY_BYTES } from '../merge/identity.js'

export const WORDS = KEY_BYTES / 4
const DIGIT = 65_536
const FEW = 4_096 // below this, a radix sort spends more time on its counters than on the keys

/** Writes a key's bytes as words that compare in the same order. */
export function putKey(keys: Uint32Array, at: number, bytes: Uint8Array): void {
  for (let word = 0; word < WORDS; word += 1) {
    const from = word * 4
    keys[at * WORDS + word] =
      (((bytes[from] as number) << 24) |
        ((bytes[from + 1] as number) << 16) |
        ((bytes[from + 2] as number) << 8) |
        (bytes[from + 3] as number)) >>>
      0
  }
}

/**
 * The key of an identity's handle (merge/identity.ts `handleKey`), computed directly from the digest that both begin
 * with.
 */
export function putIdentity(keys: Uint32Array, at: number, identity: Identity): void {
  const digest = hash('sha256', identityKey(identity), 'binary')
  for (let word = 0; word < WORDS; word += 1) {
    const from = word * 4
    keys[at * WORDS + word] =
      ((digest.charCodeAt(from) << 24) |
        (digest.charCodeAt(from + 1) << 16) |
        (digest.charCodeAt(from + 2) << 8) |
        digest.charCodeAt(from + 3)) >>>
      0
  }
}

/** A copy of one key. */
export function keyAt(keys: Uint32Array, at: number): Uint32Array {
  return keys.slice(at * WORDS, (at + 1) * WORDS)
}

/** Compares key `i` of `a` with key `j` of `b`: negative, zero or positive. */
export function compareKeys(a: Uint32Array, i: number, b: Uint32Array, j: number): number {
  for (let word = 0; word < WORDS; word += 1) {
    const difference = (a[i * WORDS + word] as number) - (b[j * WORDS + word] as number)
    if (difference !== 0) return difference
  }
  return 0
}

/** How many of the first `count` keys are smaller than `key`. */
export function countBelow(keys: Uint32Array, count: number, key: Uint32Array): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compareKeys(keys, middle, key, 0) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** The position of `key` among `count` sorted keys; -1 when it is not among them. */
export function findKey(keys: Uint32Array, count: number, key: Uint32Array): number {
  const at = countBelow(keys, count, key)
  return at < count && compareKeys(keys, at, key, 0) === 0 ? at : -1
}

/**
 * The positions of `keys` in key order; equal keys keep their order. A radix sort, because a comparing sort of a
 * million keys takes a second.
 */
export function sortedPositions(keys: Uint32Array): Uint32Array {
  const count = keys.length / WORDS
  if (count <= FEW) {
    const positions = Uint32Array.from({ length: count }, (_, at) => at)
    return positions.sort((a, b) => compareKeys(keys, a, keys, b) || a - b)
  }
  let order = Uint32Array.from({ length: count }, (_, at) => at)
  let next = new Uint32Array(count)
  const starts = new Uint32Array(DIGIT)
  for (let digit = WORDS * 2 - 1; digit >= 0; digit -= 1) {
    const word = digit >> 1
    const shift = digit & 1 ? 0 : 16
    const digitOf = (at: number) => ((keys[at * WORDS + word] as number) >>> shift) & (DIGIT - 1)
    starts.fill(0)
    for (let at = 0; at < count; at += 1) {
      const value = digitOf(at)
      starts[value] = (starts[value] as number) + 1
    }
    let sum = 0
    for (let value = 0; value < DIGIT; value += 1) {
      const here = starts[value] as number
      starts[value] = sum
      sum += here
    }
    for (let at = 0; at < count; at += 1) {
      const from = order[at] as number
      const value = digitOf(from)
      next[starts[value] as number] = from
      starts[value] = (starts[value] as number) + 1
    }
    const spare = order
    order = next
    next = spare
  }
  return order
}

/**
 * The first 128 bits of SHA-256, as numbers for a column. Taking text from the hash costs a fifth of taking a Buffer.
 */
export function digestWords(content: NodeJS.ArrayBufferView | string): readonly number[] {
  const text = hash('sha256', content as BinaryLike, 'binary')
  const word = (at: number) =>
    (text.charCodeAt(at) |
      (text.charCodeAt(at + 1) << 8) |
      (text.charCodeAt(at + 2) << 16) |
      (text.charCodeAt(at + 3) << 24)) >>>
    0
  return [word(0), word(4), word(8), word(12)]
}

/** 128 bits for a token: enough that nobody finds two contents with the same one. */
export function digestText(content: NodeJS.ArrayBufferView | string): string {
  return hash('sha256', content as BinaryLike, 'base64url').slice(0, 22)
}

/** The same digest over content that arrives in portions. */
export function createDigest() {
  const sum = createHash('sha256')
  return {
    update: (content: NodeJS.ArrayBufferView) => void sum.update(content),
    text: () => sum.digest('base64url').slice(0, 22),
  }
}
