/**
 * Rows that can be kept as they came, read without parsing them: each member is checked by itself, by the rules for whole rows
 * (upstreams/rows/listing.ts), and what was found for a value that comes again is remembered. Any doubt leaves the row to
 * those rules. Where a row ends is found on the way, so that the text of an answer is passed over once. Pure.
 */
import { countMembers, measure } from '../../adcp/json.js'
import { type TSchema, Type } from '../../adcp/schema.js'
import { LocalId, SignalRow } from '../../adcp/signal.js'
import {
  createKnownTexts,
  type Memory,
  remembered,
  rememberedBytes,
  wholeMemory,
} from '../../process/remembered.js'
import { checkRows, createPruner, parsedJson } from './listing.js'
import {
  endOfRef,
  endOfRepeatedId,
  endOfRow,
  findMembers,
  MEMBER,
  memberOf,
  membersRoom,
  type ProvidersRef,
  placesRoom,
  providersRef,
  putMembers,
  releaseMembers,
} from './written.js'

const MAX_DEPTH = 8 // of one member; a row may be deeper, and is parsed then
const FIRST_PLACES = 2_048
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
/** Each of a provider's reference alone: the domains are few. */
const isProvider = remembered((domain) =>
  isRef({ scope: 'data_provider', data_provider_domain: domain, signal_id: 'a' }),
)
const isId = checkRows(LocalId).conforms
const TEXTS: ReadonlySet<string> = new Set(['signal_agent_segment_id', 'name', 'description'])

/** How a member's value is judged. `known`: values of several parts that were kept lately. */
type Judged = { readonly isKept: Keeps; readonly known: ReturnType<typeof createKnownTexts> | undefined }

const judgedBy = (name: string, schema: TSchema): Judged => ({
  isKept: TEXTS.has(name) ? keepsText(schema) : rememberedBytes(keepsValue(name, schema)),
  known: schema.type === 'array' ? createKnownTexts() : undefined,
})
/** By member; undefined for the reference, which is judged before. */
const JUDGED: readonly (Judged | undefined)[] = Object.keys(MEMBER).map((name) => {
  const schema = (others as Record<string, TSchema>)[name]
  return schema && judgedBy(name, schema)
})
const REQUIRED = SignalRow.required.map((name) => MEMBER[name as keyof typeof MEMBER])

/** A row that is kept as it came. */
export type PlainRow = {
  memory: Memory
  /** Where it stands in its memory: its first byte, and the index after its last. */
  start: number
  end: number
  /** The same of the text of its segment. */
  segment: number
  segmentEnd: number
  /** Of the provider whose signal it is. */
  domain: string
  /** The places of its members (upstreams/rows/written.ts): so many words, from one on. */
  places: Uint32Array
  firstPlace: number
  members: number
}

const listed = membersRoom()
const MOST_MEMBERS = listed.starts.length
const isKnown = new Uint8Array(MOST_MEMBERS)

function larger(places: Uint32Array): Uint32Array<ArrayBuffer> {
  const twice = new Uint32Array(places.length * 2)
  twice.set(places)
  return twice
}

/**
 * The row that begins at `start`; undefined when it cannot be kept as it came. What stands from there to `end` (excluded) is UTF-8
 * without escapes, and the row may end before. The places of its members are written into `places`, where there is room for them.
 */
function plainRowAt(
  memory: Memory,
  start: number,
  end: number,
  places: Uint32Array,
  firstPlace: number,
): PlainRow | undefined {
  const ref = providersRef(memory, start, end)
  if (!ref || !isProvider(ref.data_provider_domain) || !isId(ref.signal_id)) return undefined

  const refEnd = endOfRef(ref, start)

  function knownEnd(member: number, from: number): number {
    if (from < refEnd) return refEnd
    const to =
      member === MEMBER.signal_id
        ? endOfRepeatedId(ref as ProvidersRef, memory, start, from, end)
        : (JUDGED[member]?.known?.endOf(memory, from, end) ?? 0)
    isKnown[member] = to > 0 ? 1 : 0
    return to
  }

  const members = findMembers(memory, start, end, places, firstPlace, knownEnd)
  if (members === 0) return undefined
  putMembers(listed, memory, start, places, firstPlace, firstPlace + members)
  releaseMembers(listed)
  const { starts, ends } = listed
  for (const member of REQUIRED) if (starts[member] === 0) return undefined
  for (let at = firstPlace; at < firstPlace + members; at += 1) {
    const member = memberOf(places[at] as number)
    const judged = JUDGED[member]
    if (!judged || isKnown[member] === 1) continue
    const from = starts[member] as number
    const to = ends[member] as number
    if (!judged.isKept(memory, from, to)) return undefined
    judged.known?.keep(memory, from, to)
  }
  return {
    memory,
    start,
    end: endOfRow(start, places, firstPlace + members),
    segment: (starts[MEMBER.signal_agent_segment_id] as number) + 1,
    segmentEnd: (ends[MEMBER.signal_agent_segment_id] as number) - 1,
    domain: ref.data_provider_domain,
    places,
    firstPlace,
    members,
  }
}

/** A row that stands alone, of which `arePlain` is true; undefined when it cannot be kept as it came. */
export function readPlain(raw: Uint8Array): PlainRow | undefined {
  const end = raw.byteOffset + raw.byteLength
  const row = plainRowAt(wholeMemory(raw), raw.byteOffset, end, placesRoom(), 0)
  return row?.end === end ? row : undefined
}

/**
 * Reads the rows of a text while their ends are looked for, in their order. The text is UTF-8 without escapes. Rows of more than
 * `rowBytes` are left to others.
 */
export function createPlainRows(text: Uint8Array, rowBytes: number) {
  const memory = wholeMemory(text)
  const { byteOffset, byteLength } = text
  const rows: PlainRow[] = []
  let places = new Uint32Array(FIRST_PLACES)
  let placesEnd = 0
  let next = 0 // of the rows, to be taken

  return {
    /** Where the row that begins at `at` ends, both in the text; 0 when it cannot be kept as it came. */
    endOf(at: number): number {
      if (placesEnd + MOST_MEMBERS > places.length) places = larger(places)
      const end = byteOffset + Math.min(byteLength, at + rowBytes)
      const row = plainRowAt(memory, byteOffset + at, end, places, placesEnd)
      if (!row) return 0
      rows.push(row)
      placesEnd += row.members
      return row.end - byteOffset
    },
    /** The row in these bytes of the text, which come in the order of the text; undefined when it was not read. */
    take(raw: Uint8Array): PlainRow | undefined {
      while (next < rows.length && (rows[next] as PlainRow).start < raw.byteOffset) next += 1
      const row = rows[next]
      return row?.start === raw.byteOffset && row.end === raw.byteOffset + raw.byteLength ? row : undefined
    },
  }
}

export type PlainRows = ReturnType<typeof createPlainRows>
