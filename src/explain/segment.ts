/**
 * Finds the signal that an upstream calls by a segment id of its own: what an operator has at hand when the upstream is
 * asked. Rows are searched as bytes, a chunk at a time between other work: parsing a million of them takes seconds.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { identityKey, identityOf, signalHandle } from '../merge/identity.js'
import { bufferOf } from '../upstreams/rows/json.js'
import type { Slab } from '../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'

/** The row that the byte at `at` of a chunk lies in; -1 when it lies in none. */
function rowAt({ count, chunkOf, start, length }: Slab, chunk: number, at: number): number {
  for (let row = 0; row < count; row += 1) {
    const from = start[row] as number
    if (chunkOf[row] === chunk && from <= at && at < from + (length[row] as number)) return row
  }
  return -1
}

function handleIn(slice: Slice, row: number, segment: string): string | undefined {
  const listing = sliceListing(slice, row)
  const identity = listing.signal_agent_segment_id === segment && identityOf(listing, slice.agentUrl)
  return identity ? signalHandle(identityKey(identity)) : undefined
}

/** Our handle of the signal; undefined when no slice lists the segment. */
export async function handleOfSegment(
  slices: readonly Slice[],
  segment: string,
): Promise<string | undefined> {
  const needle = Buffer.from(JSON.stringify(segment))
  for (const slice of slices) {
    for (const [chunk, bytes] of slice.rows.chunks.entries()) {
      await nextTurn()
      const buffer = bufferOf(bytes)
      for (let at = buffer.indexOf(needle); at !== -1; at = buffer.indexOf(needle, at + 1)) {
        const row = rowAt(slice.rows, chunk, at)
        const handle = row < 0 ? undefined : handleIn(slice, row, segment)
        if (handle !== undefined) return handle
      }
    }
  }
  return undefined
}
