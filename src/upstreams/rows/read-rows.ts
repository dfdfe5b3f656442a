/**
 * The rows of one answer, read: validated, hashed, written one after another, what could not be read counted. It is
 * plain typed arrays, so that a thread can hand it over without a copy. Nearly all rows of an agent that speaks the current
 * protocol are kept as they came (upstreams/rows/plain-row.ts); the others are read by the rules for whole rows
 * (upstreams/rows/listing.ts). Pure.
 */
import { boundedText, bufferOf, isRecord } from '../../adcp/json.js'
import { spellings } from '../../adcp/redaction.js'
import { putKeyed, wholeMemory } from '../../process/remembered.js'
import { type Dropped, ROW_BYTES, readRow } from './listing.js'
import { type PlainRow, type PlainRows, readPlain } from './plain-row.js'
import type { Places } from './slab.js'
import { digestNumbers, type Listing, putDigest, type Quirk, type RefusedRow } from './slice.js'
import { arePlain } from './written.js'

/** Refused rows that are named; the others are counted. */
export const MAX_REFUSED = 1_000
const MAX_NAME = 300
const NONE: readonly Quirk[] = []
const USUAL_MEMBERS = 16 // of a row
const COLUMNS_BYTES = 8 + 8 + 4 + 4 + 4 * USUAL_MEMBERS // of a row in the columns of `ReadRows`
const FULL = 0.75 // of an answer's memory: rows that fill less of it would keep the rest from being used

/** The listings of one answer in its own order, and the rows that were not kept. */
export type ReadRows = {
  /** Rows as they came: those that were kept and those that were not. */
  elements: number
  /** Each listing as `writeListing` wrote it, one after another. */
  bytes: Uint8Array
  /** Where each listing ends in `bytes`. */
  ends: Uint32Array
  /** First 64 bits of SHA-256 over each listing's bytes. */
  digests: BigUint64Array
  /** A number for each listing's `signal_agent_segment_id`, by which this process tells them apart. */
  segments: BigUint64Array
  /** Where the members of each listing stand in its bytes. */
  places: Places
  /** Each once. */
  quirks: readonly Quirk[]
  /** Provider domains that the listings name. */
  domains: readonly string[]
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** Their prices are told to this credential alone (its name). Absent: to everybody, or to the account that was named. */
  pricedFor?: string
  /** The agent did not say for whom its prices are, and had not said before. */
  isUnsaid?: boolean
}

export type RowBounds = {
  /** Of one row as it came. */
  rowBytes?: number
  /** Of the answer, decoded. */
  answerBytes?: number
  /** Texts that no listing may hold, however they are spelled: what we are known by at the agent that sent it. */
  secrets?: readonly string[]
}

/** The names in a refused row: its segment, and its reference as `domain/id`, `url#id` or the bare id. */
export function refusedRow(reason: Dropped, row: Readonly<Record<string, unknown>> = {}): RefusedRow {
  const ref = [row.signal_ref, row.signal_id].find(isRecord) ?? {}
  const segment = boundedText(row.signal_agent_segment_id, MAX_NAME)
  const id = boundedText(ref.signal_id ?? ref.id, MAX_NAME)
  const domain = boundedText(ref.data_provider_domain, MAX_NAME)
  const source = boundedText(ref.signal_source_url ?? ref.agent_url, MAX_NAME)
  const signal = id && (domain ? `${domain}/${id}` : source ? `${source}#${id}` : id)
  return { reason, ...(segment && { segment }), ...(signal && { signal }) }
}

/** The bytes of each listing, views and not copies. */
export function* listingBytes({ bytes, ends }: ReadRows): Generator<Uint8Array> {
  let from = 0
  for (const end of ends) {
    yield bytes.subarray(from, end)
    from = end
  }
}

/** One listing. */
export function listingAt({ bytes, ends }: ReadRows, at: number): Listing {
  const row = bytes.subarray(ends[at - 1] ?? 0, ends[at])
  return JSON.parse(bufferOf(row).toString()) as Listing
}

/** The listings themselves. */
export function listingsOf(rows: ReadRows): Listing[] {
  return Array.from(rows.ends, (_, at) => listingAt(rows, at))
}

/** One row: as it came where that can be, else by the rules for whole rows. */
function readOne(raw: Uint8Array, plain: PlainRow | undefined, maxBytes: number) {
  if (plain) {
    const { memory, segment, segmentEnd, domain } = plain
    return { kind: 'listing' as const, memory, segment, segmentEnd, domain, bytes: raw, quirks: NONE }
  }
  const row = readRow(raw, maxBytes)
  if (row.kind === 'dropped') return row
  const { signal_ref: ref, signal_agent_segment_id: named } = row.listing
  const domain = ref?.scope === 'data_provider' ? ref.data_provider_domain : undefined
  const text = Buffer.from(named)
  const { byteOffset: segment } = text
  return { ...row, memory: wholeMemory(text), segment, segmentEnd: segment + text.byteLength, domain }
}

function larger(from: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(length)
  to.set(from)
  return to
}

/**
 * Room for the texts one after another. In `memory`, where most of them lie, when they fill it and none is overwritten before it
 * is copied: new memory for each answer costs more than what is read in it. Else in memory of their own.
 */
function roomFor(texts: readonly Uint8Array[], bytes: number, memory?: Uint8Array): Uint8Array {
  if (!memory || bytes > memory.byteLength || bytes < memory.buffer.byteLength * FULL)
    return new Uint8Array(bytes)
  const { buffer, byteOffset } = memory
  let end = byteOffset
  for (const text of texts) {
    if (text.buffer === buffer && text.byteOffset < end) return new Uint8Array(bytes)
    end += text.byteLength
  }
  return new Uint8Array(buffer, byteOffset, bytes)
}

/** The texts one after another. Nothing else is in their memory, so that it can be handed over. */
function joined(texts: readonly Uint8Array[], bytes: number, memory?: Uint8Array): Uint8Array {
  const room = roomFor(texts, bytes, memory)
  let at = 0
  for (const text of texts) {
    room.set(text, at)
    at += text.byteLength
  }
  return room
}

/** Columns for so many rows, in one memory: each that is handed over costs. */
function columnsFor(rows: number) {
  const memory = new ArrayBuffer(rows * COLUMNS_BYTES)
  return {
    digests: new BigUint64Array(memory, 0, rows),
    segments: new BigUint64Array(memory, rows * 8, rows),
    ends: new Uint32Array(memory, rows * 16, rows),
    placeEnds: new Uint32Array(memory, rows * 20, rows),
    places: new Uint32Array(memory, rows * 24, rows * USUAL_MEMBERS),
  }
}

/** Where rows lie that were found in an answer. */
type FoundIn = {
  /** Nobody reads it afterwards. */
  memory?: Uint8Array | undefined
  /** Those that were read while their ends were looked for. */
  plain?: PlainRows | undefined
}

/** `elements`: the JSON of each row as it came. */
export function readRows(
  elements: readonly Uint8Array[],
  { rowBytes = ROW_BYTES, secrets = [] }: RowBounds = {},
  { memory, plain: found }: FoundIn = {},
): ReadRows {
  const texts: Uint8Array[] = []
  const columns = columnsFor(elements.length)
  const { digests, segments, ends, placeEnds } = columns
  let { places } = columns
  const [digestWords, segmentWords] = [digestNumbers(digests), digestNumbers(segments)]
  const domains = new Set<string>()
  const dropped: Record<string, number> = {}
  const refused: RefusedRow[] = []
  const quirks = new Set<Quirk>()
  const hidden = secrets.flatMap(spellings).map((spelling) => Buffer.from(spelling))
  const allPlain = !found && arePlain(elements)
  let end = 0
  let placesEnd = 0

  function drop(reason: Dropped, row?: Readonly<Record<string, unknown>>): void {
    dropped[reason] = (dropped[reason] ?? 0) + 1
    if (refused.length < MAX_REFUSED) refused.push(refusedRow(reason, row))
  }

  function plainRow(raw: Uint8Array): PlainRow | undefined {
    if (found) return found.take(raw)
    return raw.byteLength <= rowBytes && (allPlain || arePlain([raw])) ? readPlain(raw) : undefined
  }

  function keepPlaces({ places: given, firstPlace, members }: PlainRow): void {
    const more = placesEnd + members
    if (more > places.length) places = larger(places, more * 2)
    for (let at = 0; at < members; at += 1) places[placesEnd + at] = given[firstPlace + at] as number
    placesEnd = more
  }

  for (const element of elements) {
    const plain = plainRow(element)
    const row = readOne(element, plain, rowBytes)
    if (row.kind === 'dropped') {
      drop(row.reason, row.row)
      continue
    }
    const { domain, bytes } = row
    for (const quirk of row.quirks) quirks.add(quirk)
    if (hidden.some((secret) => bufferOf(bytes).includes(secret))) {
      drop('holds_secret')
      continue
    }
    const at = texts.push(bytes) - 1
    end += bytes.byteLength
    ends[at] = end
    if (plain) keepPlaces(plain)
    placeEnds[at] = placesEnd
    putDigest(digestWords, at, bytes)
    putKeyed(segmentWords, at, row.memory, row.segment, row.segmentEnd)
    if (domain !== undefined) domains.add(domain)
  }
  const count = texts.length
  return {
    elements: elements.length,
    bytes: joined(texts, end, memory),
    ends: ends.subarray(0, count),
    digests: digests.subarray(0, count),
    segments: segments.subarray(0, count),
    places: { words: places.subarray(0, placesEnd), ends: placeEnds.subarray(0, count) },
    quirks: [...quirks],
    domains: [...domains],
    dropped,
    refused,
  }
}

/** What an answer without rows has. */
export const NO_ROWS: ReadRows = readRows([])
