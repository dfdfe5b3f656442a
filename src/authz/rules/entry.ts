/**
 * One entry of `authorized_agents[]` in a provider's file: what it grants, or why it is skipped, and what the provider should
 * know of that (docs/protocol.md#provider-files; schema adagents.json, the signal_ids and signal_tags variants). A limit that
 * cannot be understood voids the whole entry: ignoring it would grant more than the provider wrote. `authorized_for` is a
 * label and neither grants nor limits anything.
 */
import { isRecord } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'

const MAX_KEPT = 200 // a file that is wrong in every entry is understood from fewer
const MAX_URL = 2048
const ID = /^[a-zA-Z0-9_-]+$/
const TAG = /^[a-z0-9_-]+$/
const COUNTRY = /^[A-Z]{2}$/
/** The only accepted form of a date-time in a provider's file (RFC 3339, the schemas' `format: date-time`). */
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i

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
