/**
 * The elements of the lists in a provider's file: where each stands in the bytes, what one of `authorized_agents[]` grants,
 * and what the provider should know of those that were skipped or look wrong (docs/protocol.md#provider-files; schema
 * adagents.json, the signal_ids and signal_tags variants). A limit that cannot be understood voids the whole entry:
 * ignoring it would grant more than the provider wrote. `authorized_for` is a label and neither grants nor limits anything.
 */
import { endOfString, endOfValue, isRecord, skipSpace } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'

const MAX_KEPT = 200 // a file that is wrong in every entry is understood from fewer
const MAX_URL = 2048
const ID = /^[a-zA-Z0-9_-]+$/
const TAG = /^[a-z0-9_-]+$/
const COUNTRY = /^[A-Z]{2}$/
/** The only accepted form of a date-time in a provider's file (RFC 3339, the schemas' `format: date-time`). */
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i
const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

const decoder = new TextDecoder()

/** What a provider should know about its file: parts that were skipped, and parts that look wrong but were used. */
export type Diagnostic = {
  /** RFC 6901 pointer into the file. */
  readonly at: string
  readonly effect: 'skipped' | 'noted'
  /** Our words only, without quotes from the file. */
  readonly message: string
}

/** Collects up to the bound; `dropped` counts the rest. */
export function createDiagnostics() {
  const kept: Diagnostic[] = []
  let dropped = 0

  function add(at: string, effect: Diagnostic['effect'], message: string): void {
    if (kept.length < MAX_KEPT) kept.push({ at, effect, message })
    else dropped += 1
  }

  return { add, finish: () => ({ kept: kept as readonly Diagnostic[], dropped }) }
}
export type Diagnostics = ReturnType<typeof createDiagnostics>

/** Skips a comma, if there is one, and the space after it. */
function next(bytes: Uint8Array, at: number): number {
  const i = skipSpace(bytes, at)
  return bytes[i] === COMMA ? skipSpace(bytes, i + 1) : i
}

/**
 * Where the member's value begins; -1 when there is none. Of duplicate members the last counts, as for `JSON.parse`.
 */
function findMember(bytes: Uint8Array, object: number, name: string): number {
  let found = -1
  let i = skipSpace(bytes, object + 1)
  while (bytes[i] === QUOTE) {
    const end = endOfString(bytes, i)
    const value = skipSpace(bytes, skipSpace(bytes, end) + 1)
    if (JSON.parse(decoder.decode(bytes.subarray(i, end))) === name) found = value
    i = next(bytes, endOfValue(bytes, value))
  }
  return found
}

/**
 * Begin and end of each element of the list in member `name`; empty when there is no such list. A file may define 50,000
 * signals: the position of each takes eight bytes, a parsed object takes a kilobyte. Expects bytes that `JSON.parse` accepts.
 */
export function elementSpans(bytes: Uint8Array, name: string): [begin: number, end: number][] {
  const marked = BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte)
  const object = skipSpace(bytes, marked ? BYTE_ORDER_MARK.length : 0)
  const list = bytes[object] === OPEN_OBJECT ? findMember(bytes, object, name) : -1
  const spans: [number, number][] = []
  if (list < 0 || bytes[list] !== OPEN_ARRAY) return spans
  for (let i = skipSpace(bytes, list + 1); bytes[i] !== CLOSE_ARRAY; ) {
    const end = endOfValue(bytes, i)
    spans.push([i, end])
    i = next(bytes, end)
  }
  return spans
}

/** Milliseconds since the epoch; undefined for anything but a full date-time with an offset on a day that exists. */
export function instantOf(value: unknown): number | undefined {
  const match = typeof value === 'string' ? DATE_TIME.exec(value) : null
  if (!match) return undefined
  const [text, year, month, day] = match
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > daysInMonth) return undefined // the platform would turn it into a day of the next month
  const instant = Date.parse(text.toUpperCase())
  return Number.isNaN(instant) ? undefined : instant
}

/** When and where a grant holds. `from` is included, `until` is not; ms since the epoch. */
export type GrantLimits = {
  readonly from: number
  readonly until: number
  readonly countries?: readonly string[]
}

type Entry =
  /** The agent is listed, but not for signals: property types grant no signal. */
  | { kind: 'other'; url: string }
  | { kind: 'ids' | 'tags'; url: string; names: readonly string[]; limits: GrantLimits; labelled: boolean }
  | { kind: 'bad'; message: string }

function listOf(value: unknown, pattern: RegExp): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined
  return value.every((item) => typeof item === 'string' && pattern.test(item)) ? value : undefined
}

/** The instant; `otherwise` when the field is absent; undefined when it is not a date-time. */
function bound(value: unknown, otherwise: number): number | undefined {
  return value === undefined ? otherwise : instantOf(value)
}

function readLimits(entry: Record<string, unknown>): GrantLimits | string {
  const from = bound(entry.effective_from, Number.NEGATIVE_INFINITY)
  const until = bound(entry.effective_until, Number.POSITIVE_INFINITY)
  if (from === undefined) return 'effective_from is not a date-time'
  if (until === undefined) return 'effective_until is not a date-time'
  if (from >= until) return 'effective_from is not before effective_until'
  if (entry.countries === undefined) return { from, until }
  const countries = listOf(entry.countries, COUNTRY)
  if (!countries) return 'countries is not a list of upper-case country codes'
  return { from, until, countries: [...new Set(countries)].sort() }
}

/** One entry as far as it concerns signals, or why it is skipped. Accepts any JSON value. */
export function readEntry(value: unknown): Entry {
  if (!isRecord(value)) return { kind: 'bad', message: 'the entry is not an object' }
  const url =
    typeof value.url === 'string' && value.url.length <= MAX_URL ? canonicalUrl(value.url) : undefined
  if (!url) return { kind: 'bad', message: 'url is not an http or https url' }
  const type = value.authorization_type
  if (type !== 'signal_ids' && type !== 'signal_tags') {
    if (typeof type === 'string') return { kind: 'other', url }
    return { kind: 'bad', message: 'authorization_type is missing' }
  }
  const names = listOf(value[type], type === 'signal_ids' ? ID : TAG)
  if (!names) return { kind: 'bad', message: `${type} is not a list of well-formed names` }
  const limits = readLimits(value)
  if (typeof limits === 'string') return { kind: 'bad', message: limits }
  const labelled = typeof value.authorized_for === 'string' && value.authorized_for !== ''
  return { kind: type === 'signal_ids' ? 'ids' : 'tags', url, names, limits, labelled }
}
