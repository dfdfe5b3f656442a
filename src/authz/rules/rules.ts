/**
 * A provider's document as tables: who is granted what, by signal id and by tag (docs/protocol.md#provider-files).
 * Built once per document, read once per offer. Entries are read one by one: a bad one is skipped with a diagnostic
 * and voids no other.
 */
import { isRecord } from '../../adcp/json.js'
import { createDiagnostics, type Diagnostic, type Diagnostics } from '../diagnostic.js'
import { parseJson } from '../inspect.js'
import type { Verdict } from '../verdict.js'
import { type Limits, readEntry } from './entry.js'

const SIGNAL_ID = /^[a-zA-Z0-9_-]{1,256}$/
const TAG = /^[a-z0-9_-]+$/
// Bounds on what one verdict may have to look at. Exceeding them narrows a grant, never widens one.
const MAX_TAGS = 64
const MAX_GRANTS = 32
const MAX_NEIGHBOURS = 16

export type Grant = Limits & {
  readonly entry: number
  /** The verdict when nothing but this grant applies. */
  readonly verdict: Extract<Verdict, { outcome: 'authorized' }>
}

export type AgentGrants = {
  readonly byId: ReadonlyMap<string, readonly Grant[]>
  readonly byTag: ReadonlyMap<string, readonly Grant[]>
}

export type PublishedSignal = {
  readonly id: string
  /** Tags that grants may rest on: those that every definition of this id carries. */
  readonly tags: readonly string[]
  /** The first definition of this id, unvalidated. */
  readonly row: Readonly<Record<string, unknown>>
  /** Its place in `signals[]`. */
  readonly index: number
}

export type Rules = {
  readonly signals: ReadonlyMap<string, PublishedSignal>
  /** By canonical agent url. */
  readonly agents: ReadonlyMap<string, AgentGrants>
  /** Listed urls by scheme-less host, for naming near misses. */
  readonly byHost: ReadonlyMap<string, readonly string[]>
  /** Near misses found so far, by the agent url asked about: as many as there are upstreams. */
  readonly hints: Map<string, string | undefined>
  /** Every instant at which some window opens or closes, ascending. */
  readonly boundaries: readonly number[]
  readonly entries: number
  readonly diagnostics: readonly Diagnostic[]
  readonly moreDiagnostics: number
}

type MutableGrants = { byId: Map<string, readonly Grant[]>; byTag: Map<string, readonly Grant[]> }

/** The host part of a canonical url, without scheme and port. */
export function hostOf(url: string): string {
  const authority = url.slice(url.indexOf('//') + 2).split(/[/?]/, 1)[0] as string
  return authority.replace(/:\d+$/, '')
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

function readSignals(list: unknown, diagnostics: Diagnostics): ReadonlyMap<string, PublishedSignal> {
  const signals = new Map<string, PublishedSignal>()
  if (list === undefined) return signals
  if (!Array.isArray(list)) {
    diagnostics.add('/signals', 'skipped', 'signals is not a list')
    return signals
  }
  for (const [index, row] of list.entries()) {
    const id = isRecord(row) ? row.id : undefined
    if (!isRecord(row) || typeof id !== 'string' || !SIGNAL_ID.test(id)) {
      diagnostics.add(`/signals/${index}`, 'skipped', 'the signal has no well-formed id')
      continue
    }
    const tags = readTags(row, `/signals/${index}`, diagnostics)
    const first = signals.get(id)
    if (!first) {
      signals.set(id, { id, tags, row, index })
      continue
    }
    diagnostics.add(
      `/signals/${index}`,
      'skipped',
      `the id is already defined at /signals/${first.index}; tags grant only when both definitions carry them`,
    )
    signals.set(id, { ...first, tags: first.tags.filter((tag) => tags.includes(tag)) })
  }
  return signals
}

/** Adds the grant to each name's list. Names of one entry share one list until another entry joins in. */
function grant(table: Map<string, readonly Grant[]>, names: readonly string[], given: Grant): boolean {
  const alone = [given]
  let complete = true
  for (const name of names) {
    const earlier = table.get(name)
    if (!earlier) table.set(name, alone)
    else if (earlier.at(-1) === given) continue
    else if (earlier.length < MAX_GRANTS) table.set(name, [...earlier, given])
    else complete = false
  }
  return complete
}

/** The document's tables; undefined when the bytes are no document (an earlier inspection said they were). */
export function compileRules(bytes: Uint8Array): Rules | undefined {
  const parsed = parseJson(bytes)
  if ('message' in parsed || !isRecord(parsed.value) || !Array.isArray(parsed.value.authorized_agents)) {
    return undefined
  }
  const diagnostics = createDiagnostics()
  const agents = new Map<string, MutableGrants>()
  const byHost = new Map<string, string[]>()
  const boundaries = new Set<number>()
  const signals = readSignals(parsed.value.signals, diagnostics)
  const list: readonly unknown[] = parsed.value.authorized_agents

  function grantsOf(url: string): MutableGrants {
    const known = agents.get(url)
    if (known) return known
    const grants: MutableGrants = { byId: new Map(), byTag: new Map() }
    agents.set(url, grants)
    const neighbours = byHost.get(hostOf(url))
    if (!neighbours) byHost.set(hostOf(url), [url])
    else if (neighbours.length < MAX_NEIGHBOURS) neighbours.push(url)
    return grants
  }

  for (const [index, value] of list.entries()) {
    const at = `/authorized_agents/${index}`
    const entry = readEntry(value)
    if (entry.kind === 'bad') {
      diagnostics.add(at, 'skipped', entry.message)
      continue
    }
    const grants = grantsOf(entry.url)
    if (entry.kind === 'other') continue
    if (!entry.labelled) diagnostics.add(at, 'noted', 'authorized_for is missing')
    const { countries } = entry.limits
    const verdict = { outcome: 'authorized' as const, entries: [index], ...(countries && { countries }) }
    const given: Grant = { ...entry.limits, entry: index, verdict }
    if (!grant(entry.kind === 'ids' ? grants.byId : grants.byTag, entry.names, given)) {
      diagnostics.add(at, 'skipped', `more than ${MAX_GRANTS} entries name the same signal for one agent`)
    }
    for (const edge of [given.from, given.until]) if (Number.isFinite(edge)) boundaries.add(edge)
  }

  const { kept, dropped } = diagnostics.finish()
  return {
    signals,
    agents,
    byHost,
    hints: new Map(),
    boundaries: [...boundaries].sort((a, b) => a - b),
    entries: list.length,
    diagnostics: kept,
    moreDiagnostics: dropped,
  }
}
