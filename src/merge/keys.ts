/**
 * Columns of keys, by which the feed is ordered and a signal is found in it. A key is the first 128 bits of the digest of a signal's
 * identity (merge/identity.ts), which its handle begins with too. It reveals nothing about who came first.
 */

/** Bytes of the identity's digest in a handle: they order the feed and find a signal in it. */
export const KEY_BYTES = 16
/** The same as words: columns hold so many numbers for a key, and for any other digest of 128 bits. */
export const WORDS = KEY_BYTES / 4
const MOST_BITS = 20 // of a key, by which it is put into a run
const LONG_RUN = 32 // keys; a longer run is sorted by itself

/** The keys with the first bit 0, or 1: keys are as good as random, so there are as many of the one as of the other. */
export type Half = 0 | 1

export const halfOf = (keys: Uint32Array, at: number) => ((keys[at * WORDS] as number) >>> 31) as Half

/** Whether no key was put there: that of no identity begins with so many zeros. */
export function isNoKey(keys: Uint32Array, at: number): boolean {
  for (let word = 0; word < WORDS; word += 1) if (keys[at * WORDS + word] !== 0) return false
  return true
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

/** Sorts few positions of keys, by inserting one after another. */
function sortRun(keys: Uint32Array, order: Uint32Array, start: number, end: number): void {
  for (let next = start + 1; next < end; next += 1) {
    const position = order[next] as number
    let to = next
    while (to > start && compareKeys(keys, order[to - 1] as number, keys, position) > 0) {
      order[to] = order[to - 1] as number
      to -= 1
    }
    order[to] = position
  }
}

/**
 * The positions of `keys` in key order; equal keys keep their order. Keys are as good as random, so their first bits spread
 * them over as many runs as there are keys, and each run has few to compare; a run that is long, because many rows offer one
 * signal or somebody looked for keys that begin alike, is sorted by itself.
 */
export function sortedPositions(keys: Uint32Array): Uint32Array {
  const count = keys.length / WORDS
  const shift = 32 - Math.min(MOST_BITS, Math.max(1, 32 - Math.clz32(count)))
  const ends = new Uint32Array(2 ** (32 - shift) + 1)
  for (let at = 0; at < count; at += 1) {
    const run = ((keys[at * WORDS] as number) >>> shift) + 1
    ends[run] = (ends[run] as number) + 1
  }
  for (let run = 1; run < ends.length; run += 1) ends[run] = (ends[run] as number) + (ends[run - 1] as number)
  const order = new Uint32Array(count)
  for (let at = 0; at < count; at += 1) {
    const run = (keys[at * WORDS] as number) >>> shift
    order[ends[run] as number] = at
    ends[run] = (ends[run] as number) + 1
  }
  let start = 0
  for (let run = 0; run < ends.length - 1; run += 1) {
    const end = ends[run] as number
    if (end - start > LONG_RUN)
      order.subarray(start, end).sort((a, b) => compareKeys(keys, a, keys, b) || a - b)
    else if (end - start > 1) sortRun(keys, order, start, end)
    start = end
  }
  return order
}
