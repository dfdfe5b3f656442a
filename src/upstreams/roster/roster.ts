/**
 * Who is read from right now: what the registries list and what the operator wrote, minus what policy excludes
 * (docs/house.md; docs/protocol.md#registry). Static entries complete and override registry entries of the
 * same canonical url.
 */
import { hash } from 'node:crypto'
import { canonicalUrl } from '../../adcp/url.js'
import type { Auth } from '../agent/agent.js'
import type { Protocol } from '../status.js'
import type { RegistryRecord } from './registry.js'

export type StaticUpstream = {
  id?: string
  url: string
  /** Probed when absent. */
  protocol?: Protocol
  auth?: Auth
  /** Questions that enumerate a brief-only agent. */
  seeds?: readonly string[]
  exclude?: boolean
}

export type RosterRule = {
  urls?: readonly string[]
  members?: readonly string[]
}

export type RosterPolicy = {
  /** When present, a registry entry must match it. Static entries always count. */
  include?: RosterRule
  exclude?: RosterRule
  /** Registry entries must hold a verification badge. */
  verifiedOnly?: boolean
}

export type RosterEntry = {
  /** Readable, unique, and the same at every start. */
  id: string
  /** Where it is called. */
  url: string
  /** Canonical: its identity in slices, handles and authorization. */
  agentUrl: string
  name: string
  protocol?: Protocol
  auth: Auth
  seeds: readonly string[]
  /** `static`, or the url of the registry that lists it. */
  source: string
  /** The registry's opinion, for people. */
  member?: string
  online?: boolean
  verified: boolean
}

export type Excluded = { url: string; reason: 'excluded' | 'not_included' | 'not_verified' }

export type Roster = { entries: readonly RosterEntry[]; excluded: readonly Excluded[] }

export type RosterSources = {
  /** Records by registry url, in configuration order: the first registry to list an agent describes it. */
  registries: readonly { url: string; records: readonly RegistryRecord[] }[]
  statics: readonly StaticUpstream[]
  policy: RosterPolicy
}

type Candidate = Omit<RosterEntry, 'id'> & { id?: string }

/** Host and path as one word: `signals.northwind.example`, `agents.example-acme`. */
function readableId(agentUrl: string): string {
  const { host, pathname } = new URL(agentUrl)
  const path = pathname.replace(/\/+$/, '').replace(/\/mcp$/i, '')
  return `${host}${path}`
    .replace(/[^a-zA-Z0-9.]+/g, '-')
    .replace(/^-|-$/g, '')
    .toLowerCase()
    .slice(0, 80)
}

function matches(
  rule: RosterRule | undefined,
  { agentUrl, member }: { agentUrl: string; member?: string },
): boolean {
  if (rule?.urls?.some((url) => canonicalUrl(url) === agentUrl)) return true
  return member !== undefined && (rule?.members?.includes(member) ?? false)
}

function objection(record: RegistryRecord, policy: RosterPolicy): Excluded['reason'] | undefined {
  if (matches(policy.exclude, record)) return 'excluded'
  if (policy.include && !matches(policy.include, record)) return 'not_included'
  return policy.verifiedOnly && !record.verified ? 'not_verified' : undefined
}

function fromStatic(entry: StaticUpstream, agentUrl: string, listed: Candidate | undefined): Candidate {
  return {
    ...listed,
    ...(entry.id && { id: entry.id }),
    ...(entry.protocol && { protocol: entry.protocol }),
    url: entry.url,
    agentUrl,
    name: listed?.name ?? entry.id ?? agentUrl,
    auth: entry.auth ?? { type: 'none' },
    seeds: entry.seeds ?? [],
    source: listed?.source ?? 'static',
    verified: listed?.verified ?? false,
  }
}

/** Given ids first, then by canonical url: who else is in the roster changes an id only where two would be equal. */
function withIds(candidates: readonly Candidate[]): RosterEntry[] {
  const taken = new Set(candidates.flatMap(({ id }) => id ?? []))
  return candidates.map((candidate) => {
    if (candidate.id) return { ...candidate, id: candidate.id }
    const plain = readableId(candidate.agentUrl)
    const id = taken.has(plain) ? `${plain}-${hash('sha256', candidate.agentUrl).slice(0, 6)}` : plain
    taken.add(id)
    return { ...candidate, id }
  })
}

/** Throws when a static url cannot be canonicalised or an id is given twice. Entries are sorted by canonical url. */
export function makeRoster({ registries, statics, policy }: RosterSources): Roster {
  const candidates = new Map<string, Candidate>()
  const excluded = new Map<string, Excluded>()
  for (const { url: source, records } of registries) {
    for (const record of records) {
      const reason = objection(record, policy)
      if (reason) excluded.set(record.agentUrl, { url: record.url, reason })
      else if (!candidates.has(record.agentUrl)) {
        candidates.set(record.agentUrl, { ...record, auth: { type: 'none' }, seeds: [], source })
      }
    }
  }
  const ids = new Set<string>()
  for (const entry of statics) {
    const agentUrl = canonicalUrl(entry.url)
    if (!agentUrl) throw new Error(`upstream url: expected an http(s) url, got ${JSON.stringify(entry.url)}`)
    if (entry.id && ids.has(entry.id)) throw new Error(`upstream id ${entry.id} is given twice`)
    if (entry.id) ids.add(entry.id)
    const listed = candidates.get(agentUrl)
    candidates.delete(agentUrl)
    excluded.delete(agentUrl)
    if (entry.exclude) excluded.set(agentUrl, { url: entry.url, reason: 'excluded' })
    else candidates.set(agentUrl, fromStatic(entry, agentUrl, listed))
  }
  const sorted = [...candidates.values()].sort((a, b) => (a.agentUrl < b.agentUrl ? -1 : 1))
  return { entries: withIds(sorted), excluded: [...excluded.values()] }
}
