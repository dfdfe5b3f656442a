/**
 * The rows of one answer, read: validated, hashed, written one after another, what could not be read counted. It is
 * plain typed arrays, so that a thread can hand it over without a copy. Nearly all rows of an agent that speaks the current
 * protocol can be kept as they came, and are read without parsing them: each member is checked by itself, by the rules for whole
 * rows (upstreams/rows/listing.ts), and what was found for a value that comes again is remembered. Any doubt leaves the row to
 * those rules. Pure.
 */
import { boundedText, bufferOf, countMembers, isRecord, measure } from '../../adcp/json.js'
import { spellings } from '../../adcp/redaction.js'
import { type TSchema, Type } from '../../adcp/schema.js'
import { SignalRow } from '../../adcp/signal.js'
import { createKnownTexts, type Memory, rememberedBytes, wholeMemory } from '../../process/remembered.js'
import { checkRows, createPruner, type Dropped, parsedJson, ROW_BYTES, readRow } from './listing.js'
import type { Places } from './slab.js'
import { digestNumbers, type Listing, putDigest, type RefusedRow } from './slice.js'
import {
  arePlain,
  endOfRef,
  findMembers,
  MEMBER,
  membersRoom,
  type ProvidersRef,
  placesRoom,
  providersRef,
  putMembers,
  releaseMembers,
} from './written.js'

/** Refused rows that are named; the others are counted. */
export const MAX_REFUSED = 1_000
const MAX_NAME = 300
const MAX_DEPTH = 8 // of one member; a row may be deeper, and is parsed then
const USUAL_MEMBERS = 16 // of a row
const FULL = 0.75 // of an answer's memory: rows that fill less of it would keep the rest from being used
const [QUOTE, SPACE] = [0x22, 0x20]

type Keeps = (memory: Memory, start: number, end: number) => boolean

/** Whether a control character stands there: four bytes are looked at together, whether one of them sorts below a space. */
function hasControls({ bytes, view }: Memory, start: number, end: number): boolean {
  let at = start
  for (; at + 4 <= end; at += 4) {
    const four = view.getInt32(at)
    if (((four - 0x20202020) & ~four & 0x80808080) !== 0) return true
  }
  for (; at < end; at += 1) if ((bytes[at] as number) < SPACE) return true
  return false
}

/**
 * Whether a text can stand in a kept row: nearly every row has its own, so it is looked at each time. It has no escapes and
 * ends where its first quote is, so it is a JSON string unless a control character stands in it.
 */
function keepsText({ minLength = 0, maxLength = Number.POSITIVE_INFINITY }: TSchema): Keeps {
  return (memory, start, end) => {
    const { bytes } = memory
    if (bytes[start] !== QUOTE || hasControls(memory, start + 1, end - 1)) return false
    const length = end - start - 2
    if (length <= maxLength && minLength <= 1) return length >= minLength
    const units = bytes.toString('utf8', start + 1, end - 1).length
    return units >= minLength && units <= maxLength
  }
}

/** Whether a value can stand in a kept row as it is: valid, nothing to cut, no name twice. */
function keepsValue(name: string, schema: TSchema): (json: string) => boolean {
  const alone = Type.Object({ [name]: schema })
  const prune = createPruner(alone)
  const { conforms } = checkRows(alone)
  return (json) => {
    const value = parsedJson(json)
    const member = { [name]: value }
    if (value === undefined || prune(member) !== member || !conforms(member)) return false
    if (typeof value !== 'object' || value === null) return true
    const { depth, members } = measure(Buffer.from(json))
    return depth <= MAX_DEPTH && members === countMembers(value)
  }
}

const { signal_ref: Ref, ...others } = SignalRow.properties
const { conforms: isRef } = checkRows(Ref)
const REQUIRED: ReadonlySet<string> = new Set(SignalRow.required)
const TEXTS: ReadonlySet<string> = new Set(['signal_agent_segment_id', 'name', 'description'])

/**
 * Where a legacy id ends that says the same as the reference in its own words, as nearly all do; 0 for any other. The domain
 * and the id are of a reference that was checked, so nothing in them is escaped.
 */
function endOfUsualId(
  { data_provider_domain: domain, signal_id: id }: ProvidersRef,
  memory: Memory,
  start: number,
) {
  const usual = `{"source":"catalog","data_provider_domain":"${domain}","id":"${id}"}`
  return memory.bytes.toString('latin1', start, start + usual.length) === usual ? start + usual.length : 0
}

/** The members besides the reference. `known`: values of several parts that were kept lately. */
const MEMBERS = Object.entries(others).map(([name, schema]) => ({
  place: MEMBER[name as keyof typeof MEMBER],
  isRequired: REQUIRED.has(name),
  isKept: TEXTS.has(name) ? keepsText(schema) : rememberedBytes(keepsValue(name, schema)),
  known: schema.type === 'array' ? createKnownTexts() : undefined,
}))
/** By member. */
const KNOWN_OF = Object.values(MEMBER).map((member) => MEMBERS.find(({ place }) => place === member)?.known)

/**
 * A row that is kept as it came: its segment, the domain of the provider whose signal it is, and how many members it has.
 */
type PlainRow = { segment: string; domain: string; members: number }

const listed = membersRoom()
const isKnown = new Uint8Array(listed.starts.length)

/**
 * A row of which `arePlain` is true; undefined when it cannot be kept as it came. The places of its members are written into
 * `places` (upstreams/rows/written.ts).
 */
export function readPlain(raw: Uint8Array, places: Uint32Array): PlainRow | undefined {
  const memory = wholeMemory(raw)
  const start = raw.byteOffset
  const end = start + raw.byteLength
  const ref = providersRef(memory, start, end)
  if (!ref || !isRef(ref)) return undefined

  const refEnd = endOfRef(ref, start)

  function knownEnd(member: number, from: number): number {
    if (from < refEnd) return refEnd
    const to =
      member === MEMBER.signal_id
        ? endOfUsualId(ref as ProvidersRef, memory, from)
        : (KNOWN_OF[member]?.endOf(memory, from, end) ?? 0)
    isKnown[member] = to > 0 ? 1 : 0
    return to
  }

  const count = findMembers(memory, start, end, places, knownEnd)
  if (count === 0) return undefined
  putMembers(listed, memory, start, places, 0, count)
  const { starts, ends } = listed
  for (const { place, isRequired, isKept, known } of MEMBERS) {
    const from = starts[place] as number
    if (from === 0) {
      if (isRequired) return undefined
    } else if (isKnown[place] === 0) {
      const to = ends[place] as number
      if (!isKept(memory, from, to)) return undefined
      known?.keep(memory, from, to)
    }
  }
  const segment = MEMBER.signal_agent_segment_id
  const text = memory.bytes.toString('utf8', (starts[segment] as number) + 1, (ends[segment] as number) - 1)
  return { segment: text, domain: ref.data_provider_domain, members: count }
}

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
  /** The same over each listing's `signal_agent_segment_id`. */
  segments: BigUint64Array
  /** Where the members of each listing stand in its bytes. */
  places: Places
  /** Whether the segment of some listing came under its oldest name, `signals_agent_segment_id`. */
  isPlural: boolean
  /** Provider domains that the listings name. */
  domains: readonly string[]
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
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
function readOne(raw: Uint8Array, isPlain: boolean, maxBytes: number, places: Uint32Array) {
  const plain = isPlain && raw.byteLength <= maxBytes ? readPlain(raw, places) : undefined
  if (plain) return { kind: 'listing' as const, ...plain, bytes: raw, isPlural: false }
  const row = readRow(raw, maxBytes)
  if (row.kind === 'dropped') return row
  const { signal_ref: ref, signal_agent_segment_id: segment } = row.listing
  const domain = ref?.scope === 'data_provider' ? ref.data_provider_domain : undefined
  return { ...row, segment, domain, members: 0 }
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

/** `elements`: the JSON of each row as it came. `memory`: where they lie, when nobody reads it afterwards. */
export function readRows(
  elements: readonly Uint8Array[],
  { rowBytes = ROW_BYTES, secrets = [] }: RowBounds = {},
  memory?: Uint8Array,
): ReadRows {
  const texts: Uint8Array[] = []
  const ends = new Uint32Array(elements.length)
  const digests = new BigUint64Array(elements.length)
  const segments = new BigUint64Array(elements.length)
  const [digestWords, segmentWords] = [digestNumbers(digests), digestNumbers(segments)]
  const placed = placesRoom()
  const placeEnds = new Uint32Array(elements.length)
  let places = new Uint32Array(elements.length * USUAL_MEMBERS)
  const domains = new Set<string>()
  const dropped: Record<string, number> = {}
  const refused: RefusedRow[] = []
  const hidden = secrets.flatMap(spellings).map((spelling) => Buffer.from(spelling))
  const allPlain = arePlain(elements)
  let end = 0
  let placesEnd = 0
  let isPlural = false

  function drop(reason: Dropped, row?: Readonly<Record<string, unknown>>): void {
    dropped[reason] = (dropped[reason] ?? 0) + 1
    if (refused.length < MAX_REFUSED) refused.push(refusedRow(reason, row))
  }

  function keepPlaces(count: number): void {
    if (placesEnd + count > places.length) places = larger(places, (placesEnd + count) * 2)
    for (let at = 0; at < count; at += 1) places[placesEnd + at] = placed[at] as number
    placesEnd += count
  }

  for (const element of elements) {
    const row = readOne(element, allPlain || arePlain([element]), rowBytes, placed)
    if (row.kind === 'dropped') {
      drop(row.reason, row.row)
      continue
    }
    const { segment, domain, bytes } = row
    isPlural ||= row.isPlural
    if (hidden.some((secret) => bufferOf(bytes).includes(secret))) {
      drop('holds_secret')
      continue
    }
    const at = texts.push(bytes) - 1
    end += bytes.byteLength
    ends[at] = end
    keepPlaces(row.members)
    placeEnds[at] = placesEnd
    putDigest(digestWords, at, bytes)
    putDigest(segmentWords, at, segment)
    if (domain !== undefined) domains.add(domain)
  }
  releaseMembers(listed)
  const count = texts.length
  const bytes = roomFor(texts, end, memory) // nothing else is in its memory, so that it can be handed over
  texts.reduce((at, text) => {
    bytes.set(text, at)
    return at + text.byteLength
  }, 0)
  return {
    elements: elements.length,
    bytes,
    ends: ends.subarray(0, count),
    digests: digests.subarray(0, count),
    segments: segments.subarray(0, count),
    places: { words: places.subarray(0, placesEnd), ends: placeEnds.subarray(0, count) },
    isPlural,
    domains: [...domains],
    dropped,
    refused,
  }
}

/** What an answer without rows has. */
export const NO_ROWS: ReadRows = readRows([])
