/**
 * The bytes of an adagents.json become a document with its tables, a pointer to one, or nothing usable
 * (docs/protocol.md#provider-files; schema adagents.json). The tables lie in shared memory: who is granted what, by signal id
 * and by tag. They are made once per document, in a worker when it is large, and every thread reads them directly. Entries
 * are read one by one: a bad one is skipped with a diagnostic and does not affect the others.
 */
import { hash } from 'node:crypto'
import { elementSpans, isRecord, measure } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'
import { f64 } from '../../process/column.js'
import {
  createDiagnostics,
  type Diagnostic,
  type Diagnostics,
  type GrantLimits,
  instantOf,
  readEntry,
} from './entry.js'
import {
  createLists,
  createNames,
  type Lists,
  type NameTable,
  type NewLists,
  sharedLists,
  sharedNumbers,
} from './lists.js'

const SIGNAL_ID = /^[a-zA-Z0-9_-]{1,256}$/
const TAG = /^[a-z0-9_-]+$/
// Bounds on the work of one verdict. A file that exceeds them grants less, never more.
const MAX_TAGS = 64
const MAX_GRANTS = 32
const MAX_NEIGHBOURS = 16

/** Deeper than any honest file, and shallow enough that a recursive reader cannot overflow its stack. */
const MAX_DEPTH = 64
/**
 * Ten times as many as 50,000 full definitions have. Parsing 20 MB of brackets would take seconds and half a gigabyte.
 */
const MAX_CONTAINERS = 2_000_000
const MAX_VALIDATOR = 255 // schema adagents.json, catalog_etag

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

export type Inspection =
  | { kind: 'document'; digest: string; lastUpdated?: number; catalogEtag?: string; tables: RuleTables }
  | { kind: 'pointer'; target: string }
  | { kind: 'bad_pointer'; message: string }
  | { kind: 'invalid'; message: string }

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
function makeTables(
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
    if (!entry.labelled) diagnostics.add(`/authorized_agents/${index}`, 'noted', 'authorized_for is missing')
    grantsOf[2 * agent + (entry.kind === 'ids' ? 0 : 1)]?.push(entries.length)
    for (const name of entry.names) named.add(names.add(name))
    named.end()
    entries.push(index)
    limits.push(entry.limits)
    for (const edge of [entry.limits.from, entry.limits.until])
      if (Number.isFinite(edge)) boundaries.add(edge)
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

/** What is wrong with the structure of the text, found before a parser allocates anything for it. */
function buildProblem(bytes: Uint8Array): string | undefined {
  const { depth, containers } = measure(bytes)
  if (depth > MAX_DEPTH) return `the file nests deeper than ${MAX_DEPTH} levels`
  return containers > MAX_CONTAINERS
    ? `the file has more than ${MAX_CONTAINERS} lists and objects`
    : undefined
}

/** The parsed text, or what is wrong with it. A byte order mark is accepted, another encoding is not. */
function parsedFile(bytes: Uint8Array): { value: unknown } | { message: string } {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return { message: 'the file is not UTF-8' } // the decoder's message names no cause
  }
  try {
    return { value: JSON.parse(text) }
  } catch {
    // The parser's message quotes the file, so it is not used: our messages hold no untrusted text.
    return {
      message: text.trimStart().startsWith('<') ? 'the file is HTML, not JSON' : 'the file is not JSON',
    }
  }
}

/** A pointer is followed only to an absolute https url. */
function pointerTo(location: unknown, field: string): Inspection {
  const target = typeof location === 'string' ? canonicalUrl(location) : undefined
  if (target?.startsWith('https://')) return { kind: 'pointer', target }
  return { kind: 'bad_pointer', message: `${field} is not an https url` }
}

function validatorText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_VALIDATOR ? value : undefined
}

/** What the bytes say. Pure; accepts any bytes, in linear time. */
export function inspect(bytes: Uint8Array): Inspection {
  const problem = buildProblem(bytes)
  if (problem) return { kind: 'invalid', message: problem }
  const parsed = parsedFile(bytes)
  if ('message' in parsed) return { kind: 'invalid', message: parsed.message }
  const file = parsed.value
  if (!isRecord(file)) return { kind: 'invalid', message: 'the file is not a JSON object' }
  if (file.authoritative_location != null) {
    return pointerTo(file.authoritative_location, 'authoritative_location')
  }
  // A superseded file asks not to be used any more and names its successor, which is used.
  if (file.superseded_by != null) return pointerTo(file.superseded_by, 'superseded_by')
  const { authorized_agents } = file
  if (!Array.isArray(authorized_agents)) {
    return { kind: 'invalid', message: 'authorized_agents is not an array' }
  }
  return {
    kind: 'document',
    digest: hash('sha256', bytes, 'base64url'),
    lastUpdated: instantOf(file.last_updated),
    catalogEtag: validatorText(file.catalog_etag),
    tables: makeTables({ ...file, authorized_agents }, bytes),
  }
}
