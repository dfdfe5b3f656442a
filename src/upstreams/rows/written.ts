/**
 * How a listing is written in a slice, and how its reference and its members are read back without parsing the row. They
 * stand together because each is right only by the others: a row is written from what was validated, its reference first,
 * so a row that does not begin with a reference has none. To find the members costs a quarter of parsing them, and what is
 * published as it came needs no writing.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf } from '../../adcp/json.js'
import { type SignalRef, SignalRow } from '../../adcp/signal.js'
import type { Places } from './slab.js'
import type { Listing } from './slice.js'

const REF = Buffer.from('{"signal_ref":{')
const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d]
const SPACE = 0x20 // and whatever sorts below it is white space

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
  for (let at = 0; at < REF.length; at += 1) if (row[at] !== REF[at]) return false
  return isUtf8(row)
}

const REF_BYTES = 640 // a provider's reference is never longer
const PROVIDERS =
  /^\{"signal_ref":\{"scope":"data_provider","data_provider_domain":"([^"\\]*)","signal_id":"([^"\\]*)"\}/

/** The reference that nearly every row begins with, to a provider's signal; undefined for any other. */
export function providersRef(text: string): SignalRef | undefined {
  const [, data_provider_domain, signal_id] = PROVIDERS.exec(text) ?? []
  if (data_provider_domain === undefined || signal_id === undefined) return undefined
  return { scope: 'data_provider', data_provider_domain, signal_id }
}

/** The reference of a row that `writeListing` wrote; undefined when it has none. */
export function writtenRef(row: Uint8Array): SignalRef | undefined {
  const bytes = bufferOf(row)
  const known = providersRef(bytes.toString('latin1', 0, REF_BYTES))
  if (known) return known
  for (let at = 0; at < REF.length; at += 1) if (row[at] !== REF[at]) return undefined
  let inString = false
  for (let at = REF.length; at < row.length; at += 1) {
    const byte = row[at]
    if (inString && byte === BACKSLASH) at += 1
    else if (byte === QUOTE) inString = !inString
    else if (byte === CLOSE_BRACE && !inString) {
      // A validated reference holds nothing but strings, so this is where it ends.
      return JSON.parse(bytes.toString('utf8', REF.length - 1, at + 1)) as SignalRef
    }
  }
  return undefined
}

const FACTOR = 31

/** The hash of a name goes on by one more byte. */
export const step = (hash: number, byte: number) => (Math.imul(hash, FACTOR) + byte) | 0

/** A number for a member's name. No two names of a listing's or a row's members have the same. */
export function nameHash(name: string): number {
  let hash = 0
  for (let at = 0; at < name.length; at += 1) hash = step(hash, name.charCodeAt(at))
  return hash
}

const NAMES = Object.keys(SignalRow.properties) as (keyof SignalRow)[]
const NUMBERS = new Map(NAMES.map((name, at) => [nameHash(name), at]))

/** The place of each member among `membersOf`. */
export const MEMBER = Object.fromEntries(NAMES.map((name, at) => [name, at])) as Readonly<
  Record<keyof SignalRow, number>
>

/** Index after the string that opens at `at`, in a text without escapes. */
const afterString = (text: string, at: number) => text.indexOf('"', at + 1) + 1 || text.length

/** Index after the value that begins at `at`, in a text without escapes. */
function afterValue(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return afterString(text, at)
  const isNested = first === OPEN_BRACE || first === OPEN_BRACKET
  let depth = 0
  let next = at
  while (next < text.length) {
    const code = text.charCodeAt(next)
    if (code === QUOTE) next = afterString(text, next)
    else {
      if (!isNested && (code === COMMA || code === CLOSE_BRACE || code <= SPACE)) return next
      next += 1
      if (code === OPEN_BRACE || code === OPEN_BRACKET) depth += 1
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth -= 1
      if (isNested && depth === 0) return next
    }
  }
  return next
}

/** The values of a listing's members as JSON, by their places in `MEMBER`. */
export type Members = readonly (string | undefined)[]

const NONE: Members = NAMES.map(() => undefined)
/** From the comma or brace before a member to its value. */
const BEFORE_VALUE = NAMES.map((name) => name.length + 4)
/** The place of a member in one number: the end of its value, then which member it is in the last bits. */
const NAME_BITS = 32 - Math.clz32(NAMES.length)
const NAME_MASK = 2 ** NAME_BITS - 1

const LONGEST = 2 ** (32 - NAME_BITS) // of a text whose ends fit beside the number of a member
const seen = new Uint8Array(NAMES.length)

/** Room for the places of any listing's members. */
export const placesRoom = () => new Uint32Array(NAMES.length)

/**
 * Writes the place of each member into `places`, for `membersAt`, and gives how many there are. None for a listing with
 * escapes or with space between its members, or with a member that is unknown or comes twice: it is parsed instead.
 */
export function findMembers(text: string, places: Uint32Array): number {
  if (text.length >= LONGEST || text.includes('\\')) return 0
  const last = text.length - 1
  seen.fill(0)
  let count = 0
  let at = 0 // of the brace or comma before a member
  do {
    let hash = 0
    let end = at + 2
    for (; end < last && text.charCodeAt(end) !== QUOTE; end += 1) hash = step(hash, text.charCodeAt(end))
    const member = NUMBERS.get(hash)
    const isPlain = text.charCodeAt(at + 1) === QUOTE && text.charCodeAt(end + 1) === COLON
    if (member === undefined || seen[member] === 1 || !isPlain) return 0
    seen[member] = 1
    const name = NAMES[member] as string // strangers can make a name of any number
    if (end - at - 2 !== name.length || !text.startsWith(name, at + 2)) return 0
    at = afterValue(text, end + 2)
    places[count] = ((at << NAME_BITS) | member) >>> 0
    count += 1
  } while (text.charCodeAt(at) === COMMA)
  return at === last && text.charCodeAt(last) === CLOSE_BRACE ? count : 0
}

/**
 * The members at the places `from` to `end` (excluded) that `findMembers` gave for the text. Strings stand in the text exactly
 * as they are written. The values may be anything that begins and ends like JSON.
 */
export function membersAt(text: string, places: Uint32Array, from: number, end: number): Members {
  const members = NONE.slice()
  let before = 0
  for (let at = from; at < end; at += 1) {
    const place = places[at] as number
    const member = place & NAME_MASK
    const valueEnd = place >>> NAME_BITS
    members[member] = text.slice(before + (BEFORE_VALUE[member] as number), valueEnd)
    before = valueEnd
  }
  return members
}

const found = placesRoom()

/** The members of a row from its text. `places`: of the rows of its slab; without the row's own they are found anew. */
export function membersOf(text: string, row = 0, places?: Places): Members | undefined {
  const from = places?.ends[row - 1] ?? 0
  const end = places?.ends[row] ?? 0
  if (places && end > from) return membersAt(text, places.words, from, end)
  const count = findMembers(text, found)
  return count === 0 ? undefined : membersAt(text, found, 0, count)
}
