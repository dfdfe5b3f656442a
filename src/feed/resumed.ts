/**
 * What an earlier process published last, shown while its rows are still read: its columns are there, and a page waits for the
 * chunks of the rows that it shows (docs/decisions.md#a-restart-serves-what-was-served).
 */
import { areWhole, type Coming } from '../upstreams/rows/storage.js'
import type { Layer } from './layers.js'

/** Chunks of rows that are still read. */
export type Chunks = readonly Coming[]

export function createResumed() {
  const resumed = new WeakSet<Layer>()
  const dropped = new WeakSet<Layer>()
  let chunks: Chunks = []
  let isThere: boolean[] = []

  return {
    /** Whether it was resumed, however long ago: it has no listings. */
    has: (layer: Layer | undefined): boolean => layer !== undefined && resumed.has(layer),
    /** Whether nothing of it is shown any more. */
    isDropped: (layer: Layer): boolean => dropped.has(layer),
    /**
     * `drop` says whether it was shown until now. It is called before anybody who waits for a damaged chunk goes on, and by the
     * function that this returns.
     */
    begin(layer: Layer, coming: Chunks, drop: () => boolean): () => void {
      const end = () => {
        if (drop()) dropped.add(layer)
      }
      resumed.add(layer)
      chunks = coming
      isThere = coming.map(() => false)
      for (const [chunk, { isWhole }] of coming.entries()) {
        void isWhole.then((is) => {
          isThere[chunk] = is
          if (!is) end()
        })
      }
      return end
    },
    /** Resolves when it is known of the rows of these entries, which are read before others; undefined when they are there. */
    reading({ snapshot: { rows } }: Layer, entries: Uint32Array): Promise<unknown> | undefined {
      const due = new Set<number>()
      for (const entry of entries) due.add(rows.chunkOf[entry] as number)
      const coming = [...due].flatMap((chunk) => (isThere[chunk] ? [] : (chunks[chunk] ?? [])))
      for (const chunk of coming) chunk.hasten()
      return coming.length > 0 ? areWhole(coming) : undefined
    },
  }
}
