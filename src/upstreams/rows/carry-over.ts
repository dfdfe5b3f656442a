/**
 * What a walk takes over from the slice before. When an upstream cannot state its prices or its coverage, its rows keep those
 * that it last gave; a part that the row states itself is used, and a part is only carried between rows of one segment and one
 * reference. Rows that came again, most of them, are left where they lie, in chunks that slices share, so that a slice that is
 * still read from (a page walk, an account) costs what changed and no more.
 */
import { nextOwnPortion } from '../../process/portions.js'
import type { Collected } from './collect.js'
import { createChunks, createSlabWriter, type Slab, slabBuffers, slabRow } from './slab.js'
import { digestNumbers, digestOf, type Listing, type Part, type Slice, sliceListing } from './slice.js'
import { writeListing } from './written.js'

const CARRIED_PORTION = 50 // rows between two portions, where rows are parsed
const MATCHED_PORTION = 8_000 // the same, where digests are compared: under a millisecond
const COPIED_PORTION = 1024 * 1024 // bytes between two portions, where they are copied to new memory
const AHEAD = 8 // rows that may have left between two that stayed
const LIVE_SHARE = 0.75 // of a chunk; below, its rows are written anew
const SMALL_CHUNK = 256 * 1024
const MOST_SMALL_CHUNKS = 32 // beyond, small ones are written anew together

const FIELDS: Record<Part, readonly (keyof Listing)[]> = {
  pricing: ['pricing_options'],
  coverage: ['coverage_percentage', 'coverage_forecast'],
}

const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** The same signal under the same name: prices of another signal are never used. */
function isSameSignal(a: Listing, b: Listing): boolean {
  const name = ({ signal_agent_segment_id, signal_ref, signal_id }: Listing) =>
    JSON.stringify([signal_agent_segment_id, signal_ref, signal_id])
  return name(a) === name(b)
}

const isEmpty = (value: unknown) => value === undefined || (Array.isArray(value) && value.length === 0)

/**
 * `row` with the parts of `before` that it does not state at all, members in the order of `before`: a row of which
 * nothing else changed is the same bytes as it was. Undefined when there is nothing to carry.
 */
function withParts(row: Listing, before: Listing, parts: readonly Part[]): Listing | undefined {
  const lost = parts.filter((part) => FIELDS[part].every((field) => isEmpty(row[field])))
  const carried = lost.flatMap((part) => FIELDS[part]).filter((field) => !isEmpty(before[field]))
  if (carried.length === 0) return undefined
  const whole = { ...row, ...Object.fromEntries(carried.map((field) => [field, before[field]])) }
  const names = new Set([...Object.keys(before), ...Object.keys(whole)] as (keyof Listing)[])
  const members = [...names].filter((name) => name in whole).map((name) => [name, whole[name]])
  return Object.fromEntries(members) as Listing
}

/** Finds the row of a segment, first where it stood last time; -1 when there is none. */
function createFinder(slice: Slice) {
  let rows: Map<string, number> | undefined

  async function everywhere(): Promise<Map<string, number>> {
    const found = new Map<string, number>()
    for (let row = 0; row < slice.rows.count; row += 1) {
      if (row > 0 && row % CARRIED_PORTION === 0) await nextOwnPortion()
      found.set(sliceListing(slice, row).signal_agent_segment_id, row)
    }
    return found
  }

  return async ({ signal_agent_segment_id: segment }: Listing, near: number): Promise<number> => {
    const isThere = near < slice.rows.count && sliceListing(slice, near).signal_agent_segment_id === segment
    if (isThere) return near
    rows ??= await everywhere()
    return rows.get(segment) ?? -1
  }
}

/** What was collected, with the parts that are out as `before` has them. */
export async function carryParts<T extends Collected>(
  found: T,
  before: Slice,
  parts: readonly Part[],
): Promise<T> {
  const find = createFinder(before)
  const writer = createSlabWriter()
  const digests = new BigUint64Array(new SharedArrayBuffer(found.digests.byteLength))

  function carried(bytes: Uint8Array, listing: Listing, at: number): Uint8Array {
    const old = sliceListing(before, at)
    const whole = isSameSignal(listing, old) ? withParts(listing, old, parts) : undefined
    return whole ? encoder.encode(writeListing(whole)) : bytes
  }

  for (let row = 0; row < found.rows.count; row += 1) {
    if (row > 0 && row % CARRIED_PORTION === 0) await nextOwnPortion()
    const bytes = slabRow(found.rows, row)
    const listing = JSON.parse(decoder.decode(bytes)) as Listing
    const at = await find(listing, row)
    const kept = at < 0 ? bytes : carried(bytes, listing, at)
    writer.append(kept)
    digests[row] = kept === bytes ? (found.digests[row] as bigint) : digestOf(kept)
  }
  return { ...found, rows: writer.finish(), digests }
}

type Matched = {
  /** For each row its place in the slice before, or -1. */
  places: Int32Array
  /** The bytes of each chunk of that slice that came again. */
  live: Float64Array
}

/** Upstreams keep their order but for what comes, changes and goes. */
async function matched(digests: BigUint64Array, before: Slice): Promise<Matched> {
  const { chunks, chunkOf, length } = before.rows
  const [found, known] = [digestNumbers(digests), digestNumbers(before.digests)]
  const places = new Int32Array(digests.length).fill(-1)
  const live = new Float64Array(chunks.length)
  let next = 0

  function match(row: number): void {
    const [low, high] = [found[row * 2], found[row * 2 + 1]]
    const end = Math.min(next + AHEAD, length.length)
    for (let at = next; at < end; at += 1) {
      if (known[at * 2] !== low || known[at * 2 + 1] !== high) continue
      const chunk = chunkOf[at] as number
      live[chunk] = (live[chunk] as number) + (length[at] as number)
      places[row] = at
      next = at + 1
      return
    }
  }

  for (let row = 0; row < digests.length; row += 1) {
    if (row % MATCHED_PORTION === 0) await nextOwnPortion()
    match(row)
  }
  return { places, live }
}

/** Chunks of the slice before that stay in use. */
function keptChunks({ chunks }: Slab, live: Float64Array): Uint8Array {
  const isSmall = (at: number) => (chunks[at] as Uint8Array).byteLength < SMALL_CHUNK
  const many = chunks.filter((_, at) => isSmall(at)).length > MOST_SMALL_CHUNKS
  return Uint8Array.from(chunks, ({ byteLength }, at) =>
    (live[at] as number) >= byteLength * LIVE_SHARE && !(many && isSmall(at)) ? 1 : 0,
  )
}

/** Whether some of their rows are held once. */
export function doShare(a: Slab, b: Slab): boolean {
  const buffers = new Set(slabBuffers(a))
  return slabBuffers(b).some((buffer) => buffers.has(buffer))
}

/** What was collected, rows that `before` has lying where they lay. */
export async function shareRows<T extends Pick<Collected, 'rows' | 'digests'>>(
  found: T,
  before: Slice,
): Promise<T> {
  const { rows: old } = before
  const { places, live } = await matched(found.digests, before)
  const kept = keptChunks(old, live)
  if (!kept.includes(1)) return found
  const numbers = new Int32Array(kept.length)
  const stayed = old.chunks.filter((_, at) => kept[at])
  for (let at = 0, next = 0; at < kept.length; at += 1) if (kept[at]) numbers[at] = next++
  const { count, length } = found.rows
  const fresh = createChunks(SMALL_CHUNK)
  const chunkOf = new Uint16Array(new SharedArrayBuffer(count * 2))
  const start = new Uint32Array(new SharedArrayBuffer(count * 4))
  let copied = 0 // bytes since the last portion

  function write(row: number): void {
    const bytes = length[row] as number
    const room = fresh.room(bytes)
    room.buffer.set(slabRow(found.rows, row), room.start)
    fresh.take(bytes)
    copied += bytes
    chunkOf[row] = stayed.length + room.chunk
    start[row] = room.start
  }

  function put(row: number): void {
    const place = places[row] as number
    const chunk = place < 0 ? -1 : (old.chunkOf[place] as number)
    if (chunk >= 0 && kept[chunk]) {
      chunkOf[row] = numbers[chunk] as number
      start[row] = old.start[place] as number
    } else write(row)
  }

  for (let row = 0; row < count; row += 1) {
    if (row % MATCHED_PORTION === 0 || copied > COPIED_PORTION) {
      copied = 0
      await nextOwnPortion()
    }
    put(row)
  }
  return { ...found, rows: { count, chunks: [...stayed, ...fresh.finish()], chunkOf, start, length } }
}
