/**
 * Who a provider's file grants what, by signal id and by tag, as tables in shared memory (docs/protocol.md#provider-files; schema
 * adagents.json). They are made once per document, in a worker when it is large, and every thread reads them directly.
 *
 * Signals and entries of `authorized_agents[]` are read one by one: a bad one is skipped with a diagnostic and does not affect the
 * others. A limit that cannot be understood voids the whole entry: ignoring it would grant more than the provider wrote.
 * `authorized_for` is a label and neither grants nor limits anything.
 */
import { elementSpans, isRecord } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'
import {
  createLists,
  createNames,
  f64,
  type Lists,
  type NameTable,
  type NewLists,
  sharedLists,
  sharedNumbers,
} from '../../process/shared-memory.js'

const MAX_DIAGNOSTICS = 200 // a file that is wrong in every entry is understood from fewer
const MAX_URL = 2048
const GRANTED_ID = /^[a-zA-Z0-9_-]+$/
const SIGNAL_ID = /^[a-zA-Z0-9_-]{1,256}$/
const TAG = /^[a-z0-9_-]+$/
const COUNTRY = /^[A-Z]{2}$/
/** The only accepted form of a date-time in a provider's file (RFC 3339, the schemas' `format: date-time`). */
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i
// Bounds on the work of one verdict. A file that exceeds them grants less, never more.
const MAX_TAGS = 64
const MAX_GRANTS = 32
const MAX_NEIGHBOURS = 16
const MAX_INSTANTS = 10_000 // at which time alone changes what the file grants

const TOO_MANY_INSTANTS = `effective_from and effective_until of the file name more than ${MAX_INSTANTS} different instants`

/** What a provider should know about its file: parts that were skipped, and parts that look wrong but were used. */
export type Diagnostic = {
  /** RFC 6901 pointer into the file. */
  readonly at: string
  readonly effect: 'skipped' | 'noted'
  /** Our words only, without quotes from the file. */
  readonly message: string
}

/** When and where a grant holds. `from` is included, `until` is not; ms since the epoch. */
export type GrantLimits = {
  readonly from: number
  readonly until: number
  readonly countries?: readonly string[]
}

export type RuleTables = {
  /** Signal ids and tags. */
  readonly names: NameTable
  /** By name: number of the signal with that id + 1, or 0. */
  readonly signalOf: Uint32Array
  readonly signals: {
    readonly name: Uint32Array
    /** Its index in `signals[]`. */
    readonly index: Uint32Array
    /** The position of the first definition of this id in the document's bytes. */
    readonly begin: Uint32Array
    readonly end: Uint32Array
    /** The tags, as name numbers, that grants may use for this id: those on every definition of it. */
    readonly tags: Lists
  }
  /** Canonical urls of the agents that are listed. */
  readonly agents: NameTable
  /** Two lists per agent: the names that it is granted by id (even) and by tag (odd), ascending. */
  readonly granted: Lists
  /** For each item of `granted`: the numbers of the grants behind it, in the order of the file. */
  readonly behind: Lists
  /** One element per entry that grants signals. Instants in ms, infinite for no limit. */
  readonly grants: {
    readonly entry: Uint32Array
    readonly from: Float64Array
    readonly until: Float64Array
    /** Two letters in one number; an empty list means every country. */
    readonly countries: Lists
  }
  /** Listed agents by host without scheme, for explaining near misses. */
  readonly hosts: NameTable
  readonly neighbours: Lists
  /** Every instant at which some window opens or closes, ascending. */
  readonly boundaries: Float64Array
  /** The number of elements in `authorized_agents[]`. */
  readonly entries: number
  readonly diagnostics: readonly Diagnostic[]
  readonly moreDiagnostics: number
}

/** The host part of a canonical url, without scheme and port. */
export function hostOf(url: string): string {
  const authority = url.slice(url.indexOf('//') + 2).split(/[/?]/, 1)[0] as string
  return authority.replace(/:\d+$/, '')
}

function packedCountry(country: string): number {
  return country.charCodeAt(0) * 256 + country.charCodeAt(1)
}

/** The country code of a number that the tables hold. */
export function unpackedCountry(packed: number): string {
  return String.fromCharCode(packed >> 8, packed & 255)
}

/** The bytes of the tables, without the document. */
export function tableBytes(value: unknown): number {
  if (ArrayBuffer.isView(value)) return value.byteLength
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 0
  return Object.values(value).reduce<number>((sum, member) => sum + tableBytes(member), 0)
}

function sharedInstants(instants: readonly number[]): Float64Array {
  const shared = f64(instants.length)
  shared.set(instants)
  return shared
}

/** Collects up to the bound; `dropped` counts the rest. */
function createDiagnostics() {
  const kept: Diagnostic[] = []
  let dropped = 0

  function add(at: string, effect: Diagnostic['effect'], message: string): void {
    if (kept.length < MAX_DIAGNOSTICS) kept.push({ at, effect, message })
    else dropped += 1
  }

  return { add, finish: () => ({ kept: kept as readonly Diagnostic[], dropped }) }
}

type Diagnostics = ReturnType<typeof createDiagnostics>

function readTags(row: Record<string, unknown>, at: string, diagnostics: Diagnostics): readonly string[] {
  if (row.tags === undefined) return []
  if (!Array.isArray(row.tags)) {
    diagnostics.add(`${at}/tags`, 'skipped', 'tags is not a list')
    return []
  }
  const tags = row.tags.filter((tag): tag is string => typeof tag === 'string' && TAG.test(tag))
  if (tags.length < row.tags.length) {
    diagnostics.add(`${at}/tags`, 'skipped', 'some tags are not of lower-case letters, digits, _ and -')
  }
  if (tags.length > MAX_TAGS)
    diagnostics.add(`${at}/tags`, 'skipped', `only the first ${MAX_TAGS} tags count`)
  return tags.length > MAX_TAGS ? tags.slice(0, MAX_TAGS) : tags
}

type ReadSignal = { name: number; tags: readonly number[]; index: number }

function readSignals(
  list: unknown,
  names: ReturnType<typeof createNames>,
  diagnostics: Diagnostics,
): ReadSignal[] {
  const signals: ReadSignal[] = []
  const signalOf: number[] = [] // by name: its number
  if (list !== undefined && !Array.isArray(list))
    diagnostics.add('/signals', 'skipped', 'signals is not a list')
  for (const [index, row] of (Array.isArray(list) ? list : []).entries()) {
    const id = isRecord(row) ? row.id : undefined
    if (!isRecord(row) || typeof id !== 'string' || !SIGNAL_ID.test(id)) {
      diagnostics.add(`/signals/${index}`, 'skipped', 'the signal has no well-formed id')
      continue
    }
    const name = names.add(id)
    const tags = readTags(row, `/signals/${index}`, diagnostics).map(names.add)
    const number = signalOf[name]
    if (number === undefined) {
      signalOf[name] = signals.push({ name, tags, index }) - 1
      continue
    }
    const first = signals[number] as ReadSignal
    diagnostics.add(
      `/signals/${index}`,
      'skipped',
      `the id is already defined at /signals/${first.index}; tags grant only when both definitions carry them`,
    )
    signals[number] = { ...first, tags: first.tags.filter((tag) => tags.includes(tag)) }
  }
  return signals
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
function readEntry(value: unknown): Entry {
  if (!isRecord(value)) return { kind: 'bad', message: 'the entry is not an object' }
  const url =
    typeof value.url === 'string' && value.url.length <= MAX_URL ? canonicalUrl(value.url) : undefined
  if (!url) return { kind: 'bad', message: 'url is not an http or https url' }
  const type = value.authorization_type
  if (type !== 'signal_ids' && type !== 'signal_tags') {
    if (typeof type === 'string') return { kind: 'other', url }
    return { kind: 'bad', message: 'authorization_type is missing' }
  }
  const names = listOf(value[type], type === 'signal_ids' ? GRANTED_ID : TAG)
  if (!names) return { kind: 'bad', message: `${type} is not a list of well-formed names` }
  const limits = readLimits(value)
  if (typeof limits === 'string') return { kind: 'bad', message: limits }
  const labelled = typeof value.authorized_for === 'string' && value.authorized_for !== ''
  return { kind: type === 'signal_ids' ? 'ids' : 'tags', url, names, limits, labelled }
}

/** The names of some grants, ascending, and of one name in the order of `grants`: name * count of grants + place of the grant. */
function sortedNames(grants: readonly number[], { starts, items }: Lists): Float64Array {
  const begin = (grant: number) => starts[grant] as number
  const size = grants.reduce((sum, grant) => sum + begin(grant + 1) - begin(grant), 0)
  const packed = new Float64Array(size) // numbers of this kind are sorted without a comparing function
  let end = 0
  let last = 0
  let isSorted = true // it often is: one grant names the signals in the order in which the file defines them
  for (const [place, grant] of grants.entries()) {
    for (let at = begin(grant); at < begin(grant + 1); at += 1) {
      const next = (items[at] as number) * grants.length + place
      isSorted &&= last <= next
      packed[end] = next
      last = next
      end += 1
    }
  }
  return isSorted ? packed : packed.sort()
}

/**
 * Adds the names that an agent is granted by grants of one kind, each with the grants behind it; `names`: those of every
 * grant. Returns the grants that exceed what one verdict may look at.
 */
function groupByName(
  grants: readonly number[],
  names: Lists,
  granted: NewLists,
  behind: NewLists,
): Set<number> {
  const left = new Set<number>()
  const sorted = sortedNames(grants, names)
  for (let at = 0; at < sorted.length; ) {
    const name = Math.floor((sorted[at] as number) / grants.length)
    const first = name * grants.length
    let count = 0
    for (; at < sorted.length && (sorted[at] as number) < first + grants.length; at += 1) {
      if (sorted[at] === sorted[at - 1]) continue // one entry names it twice
      const grant = grants[(sorted[at] as number) - first] as number
      if (count < MAX_GRANTS) behind.add(grant)
      else left.add(grant)
      count += 1
    }
    granted.add(name)
    behind.end()
  }
  granted.end()
  return left
}

/** The tables of a parsed document; `bytes` is the text it was parsed from. */
export function makeTables(
  file: Record<string, unknown> & { authorized_agents: readonly unknown[] },
  bytes: Uint8Array,
): RuleTables {
  const diagnostics = createDiagnostics()
  const names = createNames()
  const agents = createNames()
  const hosts = createNames()
  const signals = readSignals(file.signals, names, diagnostics)
  // A file may define 50,000 signals: the position of each takes eight bytes, a parsed object takes a kilobyte.
  const spans = elementSpans(bytes, ['signals'])
  const neighbours: number[][] = []
  /** Two lists per agent: its grants by id (even) and by tag (odd). */
  const grantsOf: number[][] = []
  const named = createLists()
  const entries: number[] = []
  const limits: GrantLimits[] = []
  const boundaries = new Set<number>()

  /** Whether the window's edges are among the instants that are followed, or there is room for them. */
  function isFollowed({ from, until }: GrantLimits): boolean {
    const edges = [from, until].filter((edge) => Number.isFinite(edge) && !boundaries.has(edge))
    if (boundaries.size + edges.length > MAX_INSTANTS) return false
    for (const edge of edges) boundaries.add(edge)
    return true
  }

  function agentOf(url: string): number {
    const before = agents.size()
    const agent = agents.add(url)
    if (agent < before) return agent
    grantsOf.push([], [])
    const host = hosts.add(hostOf(url))
    neighbours[host] ??= []
    if (neighbours[host].length < MAX_NEIGHBOURS) neighbours[host].push(agent)
    return agent
  }

  for (const [index, value] of file.authorized_agents.entries()) {
    const entry = readEntry(value)
    if (entry.kind === 'bad') {
      diagnostics.add(`/authorized_agents/${index}`, 'skipped', entry.message)
      continue
    }
    const agent = agentOf(entry.url)
    if (entry.kind === 'other') continue
    if (!isFollowed(entry.limits)) {
      diagnostics.add(`/authorized_agents/${index}`, 'skipped', TOO_MANY_INSTANTS)
      continue
    }
    if (!entry.labelled) diagnostics.add(`/authorized_agents/${index}`, 'noted', 'authorized_for is missing')
    grantsOf[2 * agent + (entry.kind === 'ids' ? 0 : 1)]?.push(entries.length)
    for (const name of entry.names) named.add(names.add(name))
    named.end()
    entries.push(index)
    limits.push(entry.limits)
  }

  const granted = createLists()
  const behind = createLists()
  const namesOf = named.finish()
  for (const grants of grantsOf) {
    for (const grant of groupByName(grants, namesOf, granted, behind)) {
      const at = `/authorized_agents/${entries[grant]}`
      diagnostics.add(at, 'skipped', `more than ${MAX_GRANTS} entries name the same signal for one agent`)
    }
  }

  const table = names.table()
  const signalOf = sharedNumbers(new Uint32Array(names.size()))
  for (const [number, { name }] of signals.entries()) signalOf[name] = number + 1
  const { kept, dropped } = diagnostics.finish()
  return {
    names: table,
    signalOf,
    signals: {
      name: sharedNumbers(signals.map(({ name }) => name)),
      index: sharedNumbers(signals.map(({ index }) => index)),
      begin: sharedNumbers(signals.map(({ index }) => spans[index]?.[0] ?? 0)),
      end: sharedNumbers(signals.map(({ index }) => spans[index]?.[1] ?? 0)),
      tags: sharedLists(signals.map(({ tags }) => tags)),
    },
    agents: agents.table(),
    granted: granted.finish(),
    behind: behind.finish(),
    grants: {
      entry: sharedNumbers(entries),
      from: sharedInstants(limits.map(({ from }) => from)),
      until: sharedInstants(limits.map(({ until }) => until)),
      countries: sharedLists(limits.map(({ countries = [] }) => countries.map(packedCountry))),
    },
    hosts: hosts.table(),
    neighbours: sharedLists(neighbours),
    boundaries: sharedInstants([...boundaries].sort((a, b) => a - b)),
    entries: file.authorized_agents.length,
    diagnostics: kept,
    moreDiagnostics: dropped,
  }
}
