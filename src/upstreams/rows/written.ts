/**
 * How a listing is written in a slice, and how its reference and its members are read back without parsing the row. They
 * stand together because each is right only by the others: a row is written from what was validated, its reference first,
 * so a row that does not begin with a reference has none. To find the members costs a quarter of parsing them, and what is
 * published as it came needs no writing.
 */
import { isUtf8 } from 'node:buffer'
import { type SignalRef, SignalRow } from '../../adcp/signal.js'
import {
  areSame,
  isSame,
  type Memory,
  ownText,
  rememberedBytes,
  type Text,
  wholeMemory,
} from '../../process/remembered.js'
import type { Places } from './slab.js'
import type { Listing } from './slice.js'

const REF = Buffer.from('{"signal_ref":{')
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d]
const SPACE = 0x20 // and whatever sorts below it is white space

const FACTOR = 31 // of the hash of a name
const NEAR = 32 // a string that ends within so many bytes is found sooner by looking at them than by asking for its end

const PROVIDERS = ownText(Buffer.from('{"signal_ref":{"scope":"data_provider","data_provider_domain":"'))
const ITS_ID = ownText(Buffer.from('","signal_id":"'))
const CATALOG = ownText(Buffer.from('{"source":"catalog","data_provider_domain":"'))
const CATALOG_ID = ownText(Buffer.from('","id":"'))
const CATALOG_END = ownText(Buffer.from('"}'))

const NAMES = Object.keys(SignalRow.properties) as (keyof SignalRow)[]
/** The place of each member in `Members`. */
export const MEMBER = Object.fromEntries(NAMES.map((name, at) => [name, at])) as Readonly<
  Record<keyof SignalRow, number>
>

/** Each name as it stands in a listing, from its quote to its colon. */
const SPELLED = NAMES.map((name) => ownText(Buffer.from(`"${name}":`)))
/** From the comma or brace before a member to its value. */
const BEFORE_VALUE = NAMES.map((name) => name.length + 4)
/** The place of a member in one number: the end of its value, then which member it is in the last bits. */
const NAME_BITS = 32 - Math.clz32(NAMES.length)
const NAME_MASK = 2 ** NAME_BITS - 1
const LONGEST = 2 ** (32 - NAME_BITS) // of a row whose ends fit beside the number of a member

/** Whether these bytes stand at `at`. */
function standsAt(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let next = 0; next < expected.length; next += 1) {
    if (bytes[at + next] !== expected[next]) return false
  }
  return true
}

/** Whether the text stands at `at`, before `end`. */
const standsIn = ({ view }: Memory, at: number, end: number, text: Text): boolean =>
  at + text.length <= end && isSame(text, view, at)

function beginsWithRef(listing: Listing): boolean {
  for (const name in listing) return name === 'signal_ref'
  return false
}

/** The listing as JSON; `listing` is validated, so there is nothing in it that JSON would lose. */
export function writeListing(listing: Listing): string {
  const { signal_ref: ref } = listing
  return JSON.stringify(!ref || beginsWithRef(listing) ? listing : { signal_ref: ref, ...listing })
}

/**
 * Whether a row that was validated as it came (nothing was left out or renamed, nothing stands in escapes) can be kept as
 * it came: then its bytes say what was validated, and writing it again would cost more than parsing it did.
 */
export function isWritten(row: Uint8Array): boolean {
  return standsAt(row, 0, REF) && isUtf8(row)
}

/** Whether no string of a row has an escape, so that it ends at the first quote. */
const isPlain = (row: Buffer) => !row.includes(BACKSLASH)

/**
 * Whether all rows are UTF-8 without an escape. Those of one answer lie one after another in its text, and are looked at in one
 * go, with what stands between them: to ask for each row costs ten times as much.
 */
export function arePlain(rows: readonly Uint8Array[]): boolean {
  const [first] = rows
  if (!first) return true
  let end = first.byteOffset
  for (const row of rows) {
    if (row.buffer !== first.buffer || row.byteOffset < end) return rows.every((row) => arePlain([row]))
    end = row.byteOffset + row.byteLength
  }
  const text = Buffer.from(first.buffer, first.byteOffset, end - first.byteOffset)
  return isPlain(text) && isUtf8(text)
}

export type ProvidersRef = Extract<SignalRef, { scope: 'data_provider' }>

/** The place of the quote that ends a string, from `at` on; -1 when there is an escape before it, or no end. */
function quoteAfter(bytes: Uint8Array, at: number, end: number): number {
  for (let next = at; next < end; next += 1) {
    const byte = bytes[next]
    if (byte === QUOTE) return next
    if (byte === BACKSLASH) return -1
  }
  return -1
}

const domainOf = rememberedBytes((text) => text)

/**
 * The reference that nearly every row begins with, to a provider's signal; undefined for any other. The row stands from
 * `start` to `end` (excluded).
 */
export function providersRef(memory: Memory, start: number, end: number): ProvidersRef | undefined {
  const { bytes } = memory
  if (!standsIn(memory, start, end, PROVIDERS)) return undefined
  const domain = start + PROVIDERS.length
  const domainEnd = quoteAfter(bytes, domain, end)
  if (domainEnd < 0 || !standsIn(memory, domainEnd, end, ITS_ID)) return undefined
  const id = domainEnd + ITS_ID.length
  const idEnd = quoteAfter(bytes, id, end)
  if (idEnd < 0 || bytes[idEnd + 1] !== CLOSE_BRACE) return undefined
  return {
    scope: 'data_provider',
    data_provider_domain: domainOf(memory, domain, domainEnd),
    signal_id: bytes.toString('utf8', id, idEnd),
  }
}

/** Where a provider's reference, valid and so without a letter of two bytes, ends in a row that begins at `start`. */
export const endOfRef = (ref: ProvidersRef, start: number): number =>
  start +
  PROVIDERS.length +
  ref.data_provider_domain.length +
  ITS_ID.length +
  ref.signal_id.length +
  '"}'.length

/**
 * Where the legacy id at `at` ends if it repeats the reference of the row that begins at `start`, in the words that nearly all use; 0
 * for any other. Nothing is read from `end` on.
 */
export function endOfRepeatedId(
  { data_provider_domain: { length: domain }, signal_id: { length: id } }: ProvidersRef,
  { view }: Memory,
  start: number,
  at: number,
  end: number,
): number {
  const refDomain = start + PROVIDERS.length
  const itsDomain = at + CATALOG.length
  const itsId = itsDomain + domain + CATALOG_ID.length
  const idEnd = itsId + id + CATALOG_END.length
  const isRepeated =
    idEnd <= end &&
    isSame(CATALOG, view, at) &&
    areSame(view, refDomain, view, itsDomain, domain) &&
    isSame(CATALOG_ID, view, itsDomain + domain) &&
    areSame(view, refDomain + domain + ITS_ID.length, view, itsId, id) &&
    isSame(CATALOG_END, view, itsId + id)
  return isRepeated ? idEnd : 0
}

/** The reference of a row that `writeListing` wrote; undefined when it has none. */
export function writtenRef(memory: Memory, start: number, end: number): SignalRef | undefined {
  const known = providersRef(memory, start, end)
  if (known) return known
  const { bytes } = memory
  if (!standsAt(bytes, start, REF)) return undefined
  let inString = false
  for (let at = start + REF.length; at < end; at += 1) {
    const byte = bytes[at]
    if (inString && byte === BACKSLASH) at += 1
    else if (byte === QUOTE) inString = !inString
    else if (byte === CLOSE_BRACE && !inString) {
      // A validated reference holds nothing but strings, so this is where it ends.
      return JSON.parse(bytes.toString('utf8', start + REF.length - 1, at + 1)) as SignalRef
    }
  }
  return undefined
}

/** The hash of a name goes on by one more byte. */
export const step = (hash: number, byte: number) => (Math.imul(hash, FACTOR) + byte) | 0

/** A number for a member's name. No two names of a listing's or a row's members have the same. */
export function nameHash(name: string): number {
  let hash = 0
  for (let at = 0; at < name.length; at += 1) hash = step(hash, name.charCodeAt(at))
  return hash
}

/** Index after the string that opens at `at`, in bytes without escapes. */
function afterString(bytes: Buffer, at: number, end: number): number {
  const near = Math.min(at + NEAR, end)
  for (let next = at + 1; next < near; next += 1) if (bytes[next] === QUOTE) return next + 1
  return bytes.indexOf(QUOTE, near) + 1 || end
}

/** Index after the value that begins at `at`, in bytes without escapes. */
function afterValue(bytes: Buffer, at: number, end: number): number {
  const first = bytes[at]
  if (first === QUOTE) return afterString(bytes, at, end)
  const isNested = first === OPEN_BRACE || first === OPEN_BRACKET
  let depth = 0
  let next = at
  while (next < end) {
    const byte = bytes[next] as number
    if (byte === QUOTE) next = afterString(bytes, next, end)
    else {
      if (!isNested && (byte === COMMA || byte === CLOSE_BRACE || byte <= SPACE)) return next
      next += 1
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1
      if (isNested && depth === 0) return next
    }
  }
  return next
}

/** Where the values of a listing's members stand in a memory, by the places of `MEMBER`. It is filled again for each listing. */
export type Members = {
  memory: Memory
  /** 0 for a member that the listing does not have: what stands at the first byte of a memory is no member's value. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

const NOWHERE = wholeMemory(new Uint8Array())

/** Room for the members of any listing. */
export const membersRoom = (): Members => ({
  memory: NOWHERE,
  starts: new Uint32Array(NAMES.length),
  ends: new Uint32Array(NAMES.length),
})

/** The memory of the last listing is held no longer. */
export function releaseMembers(members: Members): void {
  members.memory = NOWHERE
}

export const hasMember = ({ starts }: Members, member: number): boolean => starts[member] !== 0

/** The JSON of a member that the listing has. A string stands in it exactly as it is written. */
export function memberText({ memory, starts, ends }: Members, member: number): string {
  return memory.bytes.toString('utf8', starts[member], ends[member])
}

/** Room for the places of any listing's members. */
export const placesRoom = () => new Uint32Array(NAMES.length)

const NUMBERS = new Map(NAMES.map((name, at) => [nameHash(name), at]))
/** The members of the row that was read last, in its order: an agent writes all its rows in one. */
const usual = new Uint8Array(NAMES.length + 1)
/** The members of a row that were found already. */
const seen = new Uint8Array(NAMES.length)

const isSpelled = (memory: Memory, at: number, end: number, member: number) =>
  standsIn(memory, at, end, SPELLED[member] as Text)

/** Which member's name opens at `at`; undefined when it is none's, or stands otherwise than we write it. */
function memberAt(memory: Memory, at: number, end: number): number | undefined {
  const { bytes } = memory
  let hash = 0
  for (let next = at + 1; next < end; next += 1) {
    const byte = bytes[next] as number
    if (byte === QUOTE) break
    hash = step(hash, byte)
  }
  const member = NUMBERS.get(hash)
  // Strangers can make a name of any number.
  return member !== undefined && isSpelled(memory, at, end, member) ? member : undefined
}

/** Where a member's value that begins at `start` ends, when that is known; else 0. */
type KnownEnd = (member: number, start: number) => number

const NOTHING_KNOWN: KnownEnd = () => 0

/**
 * Writes the place of each member of the row that begins at `start` into `places`, from `firstPlace` on, and gives how many there
 * are; `endOfRow` tells where the row ends, before `end` or there. No escapes stand in between. None for a row with space between its
 * members, or with a member that is unknown or comes twice: it is parsed instead.
 */
export function findMembers(
  memory: Memory,
  start: number,
  end: number,
  places: Uint32Array,
  firstPlace = 0,
  knownEnd = NOTHING_KNOWN,
): number {
  if (end - start >= LONGEST) return 0
  const { bytes } = memory
  const last = end - 1
  seen.fill(0)
  let count = 0
  let at = start // of the brace or comma before a member
  do {
    const likely = usual[count] as number
    const member = isSpelled(memory, at + 1, end, likely) ? likely : memberAt(memory, at + 1, end)
    if (member === undefined || seen[member] === 1) return 0
    seen[member] = 1
    usual[count] = member
    const value = at + (BEFORE_VALUE[member] as number)
    at = knownEnd(member, value) || afterValue(bytes, value, end)
    places[firstPlace + count] = (((at - start) << NAME_BITS) | member) >>> 0
    count += 1
  } while (bytes[at] === COMMA && at < last)
  return at < end && bytes[at] === CLOSE_BRACE ? count : 0
}

/** Which member a place is of. */
export const memberOf = (place: number): number => place & NAME_MASK

/** Index after the row at `start`, by the last of the places that `findMembers` gave for it: the one before `placesEnd`. */
export const endOfRow = (start: number, places: Uint32Array, placesEnd: number): number =>
  start + ((places[placesEnd - 1] as number) >>> NAME_BITS) + 1

/**
 * Fills `members` from the places `from` to `end` (excluded) that `findMembers` gave for the row at `start`. The values may
 * be anything that begins and ends like JSON.
 */
export function putMembers(
  members: Members,
  memory: Memory,
  start: number,
  places: Uint32Array,
  from: number,
  end: number,
): void {
  const { starts, ends } = members
  members.memory = memory
  starts.fill(0)
  let before = start
  for (let at = from; at < end; at += 1) {
    const place = places[at] as number
    const member = memberOf(place)
    starts[member] = before + (BEFORE_VALUE[member] as number)
    before = start + (place >>> NAME_BITS)
    ends[member] = before
  }
}

const found = placesRoom()

/**
 * Fills `members` for a row of a slab. `places`: of the rows of its slab; without the row's own they are found anew. False
 * when the row has to be parsed.
 */
export function locateMembers(
  members: Members,
  memory: Memory,
  start: number,
  end: number,
  row = 0,
  places?: Places,
): boolean {
  const from = places?.ends[row - 1] ?? 0
  const to = places?.ends[row] ?? 0
  if (places && to > from) {
    putMembers(members, memory, start, places.words, from, to)
    return true
  }
  if (!isPlain(memory.bytes.subarray(start, end))) return false
  const count = findMembers(memory, start, end, found)
  if (count === 0 || endOfRow(start, found, count) !== end) return false
  putMembers(members, memory, start, found, 0, count)
  return true
}
