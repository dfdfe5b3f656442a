/**
 * Signals by the segment ids of the upstreams, which is what an operator has at hand when an upstream is asked. Rows are searched
 * as bytes, in portions between other work: parsing a million of them takes seconds.
 */
import { bufferOf } from '../adcp/json.js'
import { identityKey, identityOf, signalHandle } from '../merge/identity.js'
import { nextPortion } from '../process/portion-turns.js'
import type { Slab } from '../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'

/** Before the id stands the member's name; a word that stands anywhere else in a row costs a comparison, no more. */
const NAMED = /"signal_agent_segment_id"\s*:\s*$/
const LONGEST_NAME = 40
const PORTION_BYTES = 1024 * 1024 // searched between two turns of the loop: under a millisecond
const PORTION_HITS = 512
const MOST_SIGNALS = 20

/** A signal, and the first upstream that calls it so. */
export type NamedSignal = { handle: string; upstream: string }

/** The row that the byte at `at` of a chunk lies in; -1 when it lies in none. Rows follow each other in a slab. */
function rowHolding({ count, chunkOf, start, length }: Slab, chunk: number, at: number): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    const isBefore =
      (chunkOf[middle] as number) < chunk ||
      (chunkOf[middle] === chunk && (start[middle] as number) + (length[middle] as number) <= at)
    if (isBefore) low = middle + 1
    else high = middle
  }
  return low < count && chunkOf[low] === chunk && (start[low] as number) <= at ? low : -1
}

function handleIn(slice: Slice, row: number, segment: string): string | undefined {
  const listing = sliceListing(slice, row)
  const identity = listing.signal_agent_segment_id === segment && identityOf(listing, slice.agentUrl)
  return identity ? signalHandle(identityKey(identity)) : undefined
}

/** Places in a chunk where the segment stands as one, with a turn of the loop now and then. */
async function* placesIn(bytes: Uint8Array, needle: Buffer): AsyncGenerator<number> {
  const buffer = bufferOf(bytes)
  for (let first = 0; first < buffer.length; first += PORTION_BYTES) {
    await nextPortion()
    const portion = buffer.subarray(first, first + PORTION_BYTES + needle.length - 1)
    let hits = 0
    for (let at = portion.indexOf(needle); at !== -1; at = portion.indexOf(needle, at + 1)) {
      hits += 1
      if (hits % PORTION_HITS === 0) await nextPortion()
      const place = first + at
      if (NAMED.test(buffer.toString('latin1', Math.max(0, place - LONGEST_NAME), place))) yield place
    }
  }
}

/** The signals that an upstream calls by this segment id of its own; no more than an answer can name. */
export async function signalsOfSegment(slices: readonly Slice[], segment: string): Promise<NamedSignal[]> {
  const needle = Buffer.from(JSON.stringify(segment))
  const found = new Map<string, NamedSignal>()
  for (const slice of slices) {
    for (const [chunk, bytes] of slice.rows.chunks.entries()) {
      for await (const at of placesIn(bytes, needle)) {
        const row = rowHolding(slice.rows, chunk, at)
        const handle = row < 0 ? undefined : handleIn(slice, row, segment)
        if (handle !== undefined && !found.has(handle))
          found.set(handle, { handle, upstream: slice.upstream })
        if (found.size === MOST_SIGNALS) return [...found.values()]
      }
    }
  }
  return [...found.values()]
}
