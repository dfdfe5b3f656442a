/** Places among the entries of a view, which stand in the order of their keys. */
import { compareKeys, countBelow } from '../snapshot/keys.js'
import type { Snapshot } from '../snapshot/snapshot.js'

/** Place among sorted `entries` of the first that is not below `entry`. */
function lowerBound(entries: Uint32Array, entry: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((entries[middle] as number) < entry) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether the entry is one of them. */
export function stands(entries: Uint32Array, entry: number): boolean {
  return entries[lowerBound(entries, entry)] === entry
}

/** Place in `entries` of the first signal whose key is beyond `key`, which itself need not be there any more. */
export function firstBeyond({ keys, count }: Snapshot, entries: Uint32Array, key: Uint32Array): number {
  const below = countBelow(keys, count, key)
  const isThere = below < count && compareKeys(keys, below, key, 0) === 0
  return lowerBound(entries, isThere ? below + 1 : below)
}
