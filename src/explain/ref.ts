/** What a person may name a signal or an upstream by, read into what it can mean (docs/explain.md). */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { bufferOf } from '../adcp/json.js'
import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import {
  handleKey,
  type Identity,
  identityKey,
  identityOf,
  signalHandle,
  signalPart,
} from '../merge/identity.js'
import type { Roster } from '../upstreams/roster/roster.js'
import type { Slab } from '../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'

const MAX_REF = 4_096

export type Meaning =
  /** `identity` is known when it was spelled out; `pins` is the text of an offer handle or option id. */
  | { kind: 'signal'; handle: string; identity?: Identity; pins?: string }
  | { kind: 'upstream'; agentUrl: string }
  /** Perhaps an upstream's own segment id. */
  | { kind: 'text' }

function ofIdentity(identity: Identity): Meaning {
  return { kind: 'signal', handle: signalHandle(identityKey(identity)), identity }
}

/** `roster` tells ids and urls of upstreams from other words. */
export function meaningOf(ref: string, { entries, excluded }: Roster): Meaning {
  const byId = entries.find(({ id }) => id === ref)
  if (byId) return { kind: 'upstream', agentUrl: byId.agentUrl }
  if (ref.length > MAX_REF) return { kind: 'text' }
  if (handleKey(signalPart(ref))) {
    const handle = signalPart(ref)
    return { kind: 'signal', handle, ...(ref !== handle && { pins: ref }) }
  }
  const [, sourceUrl, sourceId] = /^(https?:\/\/[^#]*)#([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  const source = sourceUrl === undefined ? undefined : canonicalUrl(sourceUrl)
  if (source && sourceId) return ofIdentity({ kind: 'source', agentUrl: source, id: sourceId })
  const agentUrl = /^https?:\/\//.test(ref) ? agentUrlOf(ref) : undefined
  const known = [...entries, ...excluded].some(({ url }) => url === ref || agentUrlOf(url) === agentUrl)
  if (agentUrl && (known || entries.some((entry) => entry.agentUrl === agentUrl))) {
    return { kind: 'upstream', agentUrl }
  }
  const [, domain, id] = /^([^/\s]+\.[^/\s]+)\/([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  if (domain && id) return ofIdentity({ kind: 'provider', domain: domain.toLowerCase(), id })
  return agentUrl ? { kind: 'upstream', agentUrl } : { kind: 'text' }
}

/** Whether an offer handle or an option id of ours speaks of the offer with this handle. */
export function isPinnedTo(pins: string, own: string): boolean {
  return pins === own || pins.startsWith(`${own}.`)
}

/** Before the id stands the member's name; a word that stands anywhere else in a row costs a comparison, no more. */
const NAMED = /"signal_agent_segment_id"\s*:\s*$/
const LONGEST_NAME = 40
const PORTION_BYTES = 1024 * 1024 // searched between two turns of the loop: under a millisecond
const PORTION_HITS = 512

/** The row that the byte at `at` of a chunk lies in; -1 when it lies in none. Rows follow each other in a slab. */
function rowAt({ count, chunkOf, start, length }: Slab, chunk: number, at: number): number {
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
    await nextTurn()
    const portion = buffer.subarray(first, first + PORTION_BYTES + needle.length - 1)
    let hits = 0
    for (let at = portion.indexOf(needle); at !== -1; at = portion.indexOf(needle, at + 1)) {
      hits += 1
      if (hits % PORTION_HITS === 0) await nextTurn()
      const place = first + at
      if (NAMED.test(buffer.toString('latin1', Math.max(0, place - LONGEST_NAME), place))) yield place
    }
  }
}

/**
 * Our handle of the signal that an upstream calls by this segment id of its own, which is what an operator has at hand when
 * the upstream is asked; undefined when no slice lists it. Rows are searched as bytes, in portions between other work:
 * parsing a million of them takes seconds.
 */
export async function handleOfSegment(
  slices: readonly Slice[],
  segment: string,
): Promise<string | undefined> {
  const needle = Buffer.from(JSON.stringify(segment))
  for (const slice of slices) {
    for (const [chunk, bytes] of slice.rows.chunks.entries()) {
      for await (const at of placesIn(bytes, needle)) {
        const row = rowAt(slice.rows, chunk, at)
        const handle = row < 0 ? undefined : handleIn(slice, row, segment)
        if (handle !== undefined) return handle
      }
    }
  }
  return undefined
}
