/**
 * The rows of a new slice: gathered from the answers of a walk, each segment once, hashed, counted when refused; with what is taken
 * over from the slice before. When an upstream cannot state its prices or its coverage, its rows keep those that it last gave; a
 * part that the row states itself is used, and a part is only carried between rows of one segment and one reference. Rows that came
 * again, most of them, are left where they lie, in chunks that slices share, so that a slice that is still read from (a page walk,
 * an account) costs what changed and no more. All in portions, so that no answer, however large, holds the event loop.
 */
import { nextOwnPortion } from '../../process/portion-turns.js'
import { listingAt, MAX_REFUSED, type ReadRows, readRows, refusedRow } from './read-rows.js'
import { createChunks, createSlabWriter, type Slab, slabBuffers, slabRow } from './slab.js'
import {
  digestNumbers,
  digestOf,
  type Listing,
  PART_FIELDS,
  type Part,
  type Quirk,
  type RefusedRow,
  type Slice,
  sliceListing,
  slotOf,
} from './slice.js'
import { writeListing } from './written.js'

const GATHERED_PORTION = 1_000 // rows between two portions: a millisecond of work
const REREAD = 100 // the same for rows that are parsed again
const MAX_DOMAINS = 100_000
const FIRST_DIGESTS = 1_024
const FIRST_SLOTS = 1_024
const CARRIED_PORTION = 50 // rows between two portions, where rows are parsed
const MATCHED_PORTION = 8_000 // the same, where digests are compared: under a millisecond
const COPIED_PORTION = 1024 * 1024 // bytes between two portions, where they are copied to new memory
const AHEAD = 8 // rows that may have left between two that stayed
const LIVE_SHARE = 0.75 // of a chunk; below, its rows are written anew
const SMALL_CHUNK = 256 * 1024
const MOST_SMALL_CHUNKS = 32 // beyond, small ones are written anew together

const decoder = new TextDecoder()
const encoder = new TextEncoder()

export type Collected = {
  rows: Slab
  digests: BigUint64Array
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** Sorted. */
  quirks: readonly Quirk[]
  /** Provider domains that the rows name, sorted. */
  domains: readonly string[]
  /** Whose prices some of the rows state, where they are not everybody's. */
  pricedFor?: string
  /** Of some answers it was not said for whom their prices are. */
  isUnsaid?: boolean
}

type Taken = {
  /** Rows that were not seen before in this collection. */
  fresh: number
  repeated: number
}

function grownDigests(from: BigUint64Array, rows: number): BigUint64Array {
  const to = new BigUint64Array(new SharedArrayBuffer(rows * 8))
  to.set(from.length > rows ? from.subarray(0, rows) : from)
  return to
}

/** An empty set of digests, in typed arrays: a set of two million strings takes hundreds of megabytes of heap, this one 32. */
function createDigestSet() {
  let slots = new Uint32Array(FIRST_SLOTS * 2) // low and high word of each; a low word of 0 is an empty slot
  let count = 0

  /** Gives whether the digest is new in `table`. */
  function put(table: Uint32Array, low: number, high: number): boolean {
    const mask = table.length / 2 - 1
    let slot = slotOf(low, high, mask)
    while (table[slot * 2] !== 0) {
      if (table[slot * 2] === low && table[slot * 2 + 1] === high) return false
      slot = (slot + 1) & mask
    }
    table[slot * 2] = low
    table[slot * 2 + 1] = high
    return true
  }

  function grow(): void {
    const larger = new Uint32Array(slots.length * 2)
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0) put(larger, slots[at] as number, slots[at + 1] as number)
    }
    slots = larger
  }

  return {
    /** Gives whether it was not there before. */
    add(low: number, high: number): boolean {
      if (count * 4 >= slots.length) grow()
      const isNew = put(slots, low || 1, high)
      if (isNew) count += 1
      return isNew
    },
  }
}

type CollectorOptions = {
  /** Answers to several questions: a row that comes again as it was is one of both, and nothing is lost. */
  overlapping?: boolean
}

/** `overlapping`: answers may have rows in common, and a row that comes again unchanged is not refused. */
export function createCollector({ overlapping = false }: CollectorOptions = {}) {
  const writer = createSlabWriter()
  const seen = createDigestSet()
  const whole = overlapping ? createDigestSet() : undefined // of whole rows
  const dropped = new Map<string, number>()
  const refused: RefusedRow[] = []
  const quirks = new Set<Quirk>()
  const domains = new Set<string>()
  let digests = grownDigests(new BigUint64Array(0), FIRST_DIGESTS)
  let pricedFor: string | undefined
  let isUnsaid = false
  let count = 0
  let bytes = 0

  function drop(reason: string, rows: number, named: readonly RefusedRow[]): void {
    dropped.set(reason, (dropped.get(reason) ?? 0) + rows)
    refused.push(...named.slice(0, MAX_REFUSED - refused.length))
  }

  /** Keeps the rows `first` to `last` (excluded) of an answer. */
  function keep({ bytes: from, ends, digests: given, places }: ReadRows, first: number, last: number): void {
    const rows = last - first
    if (count + rows > digests.length) digests = grownDigests(digests, (count + rows) * 2)
    digests.set(given.subarray(first, last), count)
    writer.appendRun(from, ends, first, last, places)
    bytes += (ends[last - 1] as number) - (ends[first - 1] ?? 0)
    count += rows
  }

  async function take(rows: ReadRows): Promise<Taken> {
    const segments = digestNumbers(rows.segments)
    const words = digestNumbers(rows.digests)
    const rowsGiven = rows.ends.length
    let repeated = 0
    let kept = 0 // rows before this one are kept, or left out
    for (let at = 0; at < rowsGiven; at += 1) {
      if (at > 0 && at % GATHERED_PORTION === 0) {
        if (at > kept) keep(rows, kept, at)
        kept = at
        await nextOwnPortion()
      }
      const isNew = seen.add(segments[at * 2] as number, segments[at * 2 + 1] as number)
      const isAlike = whole ? !whole.add(words[at * 2] as number, words[at * 2 + 1] as number) : false
      if (isNew) continue
      if (at > kept) keep(rows, kept, at)
      kept = at + 1
      repeated += 1
      if (isAlike) continue
      // One handle, one signal: activation could not tell two rows apart.
      const isNamed = refused.length < MAX_REFUSED
      drop('repeated', 1, isNamed ? [refusedRow('repeated', listingAt(rows, at))] : [])
    }
    if (rowsGiven > kept) keep(rows, kept, rowsGiven)
    for (const [reason, times] of Object.entries(rows.dropped)) drop(reason, times, [])
    refused.push(...rows.refused.slice(0, MAX_REFUSED - refused.length))
    for (const quirk of rows.quirks) quirks.add(quirk)
    pricedFor ??= rows.pricedFor
    isUnsaid ||= rows.isUnsaid === true
    for (const domain of rows.domains) if (domains.size < MAX_DOMAINS) domains.add(domain)
    return { fresh: rows.elements - repeated, repeated }
  }

  return {
    take,
    rows: () => count,
    /** What is held of them: their bytes and the places of their members. */
    bytes: () => bytes + writer.placesBytes(),
    finish(): Collected {
      return {
        rows: writer.finish(),
        digests: grownDigests(digests, count),
        dropped: Object.fromEntries(dropped),
        refused,
        quirks: [...quirks].sort(),
        domains: [...domains].sort(),
        ...(pricedFor !== undefined && { pricedFor }),
        ...(isUnsaid && { isUnsaid }),
      }
    },
  }
}

export type Collector = ReturnType<typeof createCollector>

/** Rows that an earlier release kept, read again by the rules of today. */
export async function collectAgain(slab: Slab): Promise<Collected> {
  const collector = createCollector()
  for (let row = 0; row < slab.count; row += REREAD) {
    const portion = Array.from({ length: Math.min(REREAD, slab.count - row) }, (_, at) =>
      slabRow(slab, row + at),
    )
    await collector.take(readRows(portion))
    await nextOwnPortion()
  }
  return collector.finish()
}

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
  const lost = parts.filter((part) => PART_FIELDS[part].every((field) => isEmpty(row[field])))
  const carried = lost.flatMap((part) => PART_FIELDS[part]).filter((field) => !isEmpty(before[field]))
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
  const pricedFor = found.pricedFor ?? (parts.includes('pricing') ? before.pricedFor : undefined)
  return { ...found, rows: writer.finish(), digests, ...(pricedFor !== undefined && { pricedFor }) }
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
