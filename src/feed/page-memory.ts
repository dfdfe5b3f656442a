/**
 * Rows of pages that had to be put together from many places or taken apart: shared by all readers who are shown the same.
 * They are one piece, since a socket takes one large piece sooner than a hundred small ones.
 */
import { LRUCache } from 'lru-cache'
import type { AdcpWarning } from '../adcp/error.js'

const MEMORY_BYTES = 64 * 1024 * 1024
const MOST_PIECES = 4 // of a page that is left where its rows stand

/** What is shown of a page: its rows, as pieces to be written in order, and what must be said of them. */
export type PageBody = { rows: readonly Uint8Array[]; warnings: readonly AdcpWarning[] }

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = Buffer.allocUnsafeSlow(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole
}

export function createPageMemory() {
  const kept = new LRUCache<string, PageBody & { rows: readonly [Uint8Array] }>({
    maxSize: MEMORY_BYTES,
    sizeCalculation: ({ rows: [whole] }, name) => whole.byteLength + name.length + 512,
  })

  /** The page of this name, which says everything that decides what is shown. */
  function page(name: string, make: () => PageBody): PageBody {
    const found = kept.get(name)
    if (found) return found
    const made = make()
    if (
      made.rows.length <= MOST_PIECES &&
      made.rows.every(({ buffer }) => buffer instanceof SharedArrayBuffer)
    ) {
      return made
    }
    const { warnings } = made
    const rows = [joined(made.rows)] as const
    kept.set(name, { rows, warnings })
    return { rows, warnings }
  }

  return { page, clear: () => kept.clear() }
}
