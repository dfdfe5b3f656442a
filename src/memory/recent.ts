/**
 * What was used last, by name. `LRUCache({ max })` takes the memory of all its entries when it is made; this one takes
 * that of those it holds. Most of what is bounded by thousands stays nearly empty in most processes.
 */
import { LRUCache } from 'lru-cache'

export type Recent<V extends NonNullable<unknown>> = LRUCache<string, V>

/** Empty, for `most` entries: one more drops the one whose last use is longest ago. */
export function createRecent<V extends NonNullable<unknown>>(most: number): Recent<V> {
  return new LRUCache<string, V>({ maxSize: most, sizeCalculation: () => 1 })
}
