/**
 * The views that were asked of a layer's snapshots. One budget for all of them: a view of a large feed has megabytes, and
 * what a caller can invent filters for must not grow with the number of snapshots that walks still need.
 */
import { LRUCache } from 'lru-cache'
import type { View } from './view.js'

const VIEW_BYTES = 256 * 1024 * 1024 // three hundred filtered walks through 200,000 signals, or 64 through a million
const SMALLEST = 1_024 // what a view costs beside its entries

export type ViewCache = {
  get(snapshot: string, key: string): View | undefined
  set(snapshot: string, key: string, view: View): void
}

export function createViewCache(): ViewCache {
  const views = new LRUCache<string, View>({
    maxSize: VIEW_BYTES,
    sizeCalculation: ({ entries }) => SMALLEST + entries.byteLength,
  })
  const nameOf = (snapshot: string, key: string) => `${snapshot} ${key}`
  return {
    get: (snapshot, key) => views.get(nameOf(snapshot, key)),
    set: (snapshot, key, view) => void views.set(nameOf(snapshot, key), view),
  }
}
