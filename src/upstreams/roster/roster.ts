/**
 * Who is read from right now: what the registries list and what the operator wrote, minus what policy excludes
 * (docs/house.md; docs/protocol.md#registry). Static entries complete and override registry entries of the
 * same canonical url.
 */
import { hash } from 'node:crypto'
import { canonicalUrl, configuredAgentUrl, holdsCredential } from '../../adcp/url.js'
import type { Auth, Protocol } from '../agent/agent.js'
import { type RegistryRecord, together } from '../rows/registry-records.js'

/** Agents that registries may bring in. Snapshots number their slices with 16 bits, and each agent is one to poll. */
const MOST_LISTED = 10_000

export type StaticUpstream = {
  id?: string
  url: string
  /** Probed when absent. */
  protocol?: Protocol
  auth?: Auth
  /** Questions that enumerate a brief-only agent. */
  seeds?: readonly string[]
  /** Prices that it tells for accounts only are shown to everybody. */
  accountPrices?: 'public'
  exclude?: boolean
  /** Nobody wrote where it is called: it is read as the registries list it, where they do. */
  asListed?: boolean
}

type RosterRule = {
  urls?: readonly string[]
  members?: readonly string[]
}

export type RosterPolicy = {
  /** When present, a registry's record must match it. Static entries always count. */
  include?: RosterRule
  /** An agent one of whose records matches it is left out. */
  exclude?: RosterRule
  /** A registry's record must hold a verification badge. */
  verifiedOnly?: boolean
}

export type RosterEntry = {
  /** Readable, unique, and the same at every start. */
  id: string
  /** Where it is called. */
  url: string
  /** Where it is looked for when it is not there: registries disagree. */
  others?: readonly string[]
  /** Canonical: its identity in slices, handles and authorization. */
  agentUrl: string
  name: string
  protocol?: Protocol
  auth: Auth
  seeds: readonly string[]
  accountPrices?: 'public'
  /** `static`, or the url of the registry that lists it. */
  source: string
  /** The registry's opinion, for people. */
  member?: string
  online?: boolean
  verified: boolean
}

/** In the order in which a record is asked whether they hold. */
const REASONS = ['excluded', 'not_included', 'not_verified', 'secret_in_url', 'too_many'] as const

/** `url` is canonical. The reason is that of the record that came furthest. `id`: as the configuration calls it. */
type Excluded = { url: string; reason: (typeof REASONS)[number]; id?: string }

export type Roster = { entries: readonly RosterEntry[]; excluded: readonly Excluded[] }

type RosterSources = {
  /** Records by registry url, in configuration order. */
  registries: readonly { url: string; records: readonly RegistryRecord[] }[]
  statics: readonly StaticUpstream[]
  policy: RosterPolicy
}

type Candidate = Omit<RosterEntry, 'id'> & { id?: string }

/**
 * Host and path as one word: `signals.northwind.example`, `agents.example-acme`. The host stays letter by letter, so
 * that no agent has the name of an agent of another host.
 */
function readableId(agentUrl: string): string {
  const { host, pathname } = new URL(agentUrl)
  const path = pathname.replace(/\/+$/, '').replace(/\/mcp$/i, '')
  const rest = path
    .replace(/[^a-zA-Z0-9.]+/g, '-')
    .replace(/-$/, '')
    .toLowerCase()
  return `${host.replace(/[^a-z0-9.-]+/g, '-')}${rest}`.slice(0, 80)
}

/** Whether a rule names a record. Its urls are read once. */
function naming({ urls = [], members = [] }: RosterRule): (record: RegistryRecord) => boolean {
  const agentUrls = new Set(urls.map(canonicalUrl))
  const slugs = new Set<string | undefined>(members)
  return ({ agentUrl, member }) => agentUrls.has(agentUrl) || slugs.has(member)
}

function fromStatic(entry: StaticUpstream, agentUrl: string, listed: Candidate | undefined): Candidate {
  const { others: _, ...said }: Partial<Candidate> = listed ?? {}
  return {
    ...said,
    ...(entry.id && { id: entry.id }),
    ...(entry.protocol && { protocol: entry.protocol }),
    ...(entry.accountPrices && { accountPrices: entry.accountPrices }),
    url: entry.url,
    agentUrl,
    name: listed?.name ?? entry.id ?? agentUrl,
    auth: entry.auth ?? { type: 'none' },
    seeds: entry.seeds ?? [],
    source: listed?.source ?? 'static',
    verified: listed?.verified ?? false,
  }
}

/** An agent that is not in the roster, as the configuration describes it, which may exclude it. */
export function unlistedEntry(agentUrl: string, statics: readonly StaticUpstream[]): RosterEntry {
  const described = statics.find(({ url }) => configuredAgentUrl(url) === agentUrl) ?? { url: agentUrl }
  return { ...fromStatic(described, agentUrl, undefined), id: agentUrl }
}

/** The agent that a person means by a url: whose it is, or where the operator calls it. It may be left out. */
export function agentMeant(url: string, { entries, excluded }: Roster): string | undefined {
  const meant = canonicalUrl(url)
  if (meant === undefined) return undefined
  const isKnown =
    entries.some(({ agentUrl }) => agentUrl === meant) || excluded.some((each) => each.url === meant)
  return isKnown ? meant : entries.find((entry) => canonicalUrl(entry.url) === meant)?.agentUrl
}

/** The name with as many digits of the url's hash as make it unlike every given id. */
function freeId(name: string, agentUrl: string, given: ReadonlySet<string>): string {
  const digits = hash('sha256', agentUrl)
  let length = 6
  while (given.has(`${name}-${digits.slice(0, length)}`)) length += 1
  return `${name}-${digits.slice(0, length)}`
}

/**
 * Ids in the configuration belong to their agents. A derived id that equals one of them, or that two urls would share,
 * gets digits of its url's hash, so that no newcomer takes a name over.
 */
function withIds(candidates: readonly Candidate[]): RosterEntry[] {
  const taken = new Set(candidates.flatMap(({ id }) => id ?? []))
  const plain = candidates.map(({ agentUrl }) => readableId(agentUrl))
  const uses = new Map<string, number>()
  candidates.forEach(({ id }, at) => {
    const name = plain[at] as string
    if (!id) uses.set(name, (uses.get(name) ?? 0) + 1)
  })
  return candidates.map((candidate, at) => {
    if (candidate.id) return { ...candidate, id: candidate.id }
    const name = plain[at] as string
    const isShared = taken.has(name) || uses.get(name) !== 1
    return { ...candidate, id: isShared ? freeId(name, candidate.agentUrl, taken) : name }
  })
}

const asCandidate = (record: RegistryRecord, source: string): Candidate => ({
  ...record,
  source,
  auth: { type: 'none' },
  seeds: [],
})

/**
 * What the registries list. A record counts when the policy admits it by itself. The first one of an agent that counts describes it
 * and takes one of the `MOST_LISTED` places, the others tell where else it may be. One that does not count tells nothing: whoever
 * wrote it is not admitted, and could lead us anywhere. `leftOut`: how far in `REASONS` the records of the others came.
 */
function listedBy({ registries, policy }: Pick<RosterSources, 'registries' | 'policy'>) {
  const isExcluded = naming(policy.exclude ?? {})
  const isIncluded = policy.include ? naming(policy.include) : () => true
  const records = registries.flatMap(({ url: source, records: listed }) =>
    listed.map((record) => ({ record, source })),
  )
  const shunned = new Set(records.flatMap(({ record }) => (isExcluded(record) ? record.agentUrl : [])))
  const candidates = new Map<string, Candidate>()
  const leftOut = new Map<string, number>()
  /** In the order of `REASONS`. */
  const fails: ((record: RegistryRecord, known: Candidate | undefined) => boolean)[] = [
    ({ agentUrl }) => shunned.has(agentUrl),
    (record) => !isIncluded(record),
    ({ verified }) => !verified && policy.verifiedOnly === true,
    ({ agentUrl }) => holdsCredential(agentUrl), // what is published and stored names agents whole
    (_, known) => known === undefined && candidates.size >= MOST_LISTED,
  ]
  for (const { record, source } of records) {
    const { agentUrl } = record
    const known = candidates.get(agentUrl)
    const failed = fails.findIndex((isFailed) => isFailed(record, known))
    if (failed < 0) candidates.set(agentUrl, known ? together(known, record) : asCandidate(record, source))
    else leftOut.set(agentUrl, Math.max(failed, leftOut.get(agentUrl) ?? 0))
  }
  for (const agentUrl of candidates.keys()) leftOut.delete(agentUrl)
  return { candidates, leftOut }
}

/**
 * Throws when a static url cannot be canonicalised, or two entries have one id or one canonical url. Entries are sorted
 * by canonical url.
 */
export function makeRoster({ registries, statics, policy }: RosterSources): Roster {
  const { candidates, leftOut } = listedBy({ registries, policy })
  const ids = new Set<string>()
  const urls = new Set<string>()
  for (const entry of statics) {
    const agentUrl = configuredAgentUrl(entry.url)
    if (!agentUrl) throw new Error(`upstream url: expected an http(s) url, got ${JSON.stringify(entry.url)}`)
    if (entry.id && ids.has(entry.id)) throw new Error(`upstream id ${entry.id} is given twice`)
    if (urls.has(agentUrl)) throw new Error(`upstream ${agentUrl} is given twice`)
    if (entry.id) ids.add(entry.id)
    urls.add(agentUrl)
    const listed = candidates.get(agentUrl)
    candidates.delete(agentUrl)
    leftOut.delete(agentUrl)
    if (entry.exclude) leftOut.set(agentUrl, REASONS.indexOf('excluded'))
    else candidates.set(agentUrl, entry.asListed && listed ? listed : fromStatic(entry, agentUrl, listed))
  }
  const sorted = [...candidates.values()].sort((a, b) => (a.agentUrl < b.agentUrl ? -1 : 1))
  const named = new Map(statics.map(({ id, url }) => [configuredAgentUrl(url), id]))
  const excluded = [...leftOut].map(([url, at]): Excluded => {
    const id = named.get(url)
    return { url, reason: REASONS[at] as Excluded['reason'], ...(id !== undefined && { id }) }
  })
  return { entries: withIds(sorted), excluded }
}

/** The ids of the upstreams that are in the roster only because this registry (url) lists them. */
export function listedOnlyBy(
  registry: string,
  { entries }: Roster,
  statics: readonly StaticUpstream[],
): string[] {
  const written = new Set(statics.map(({ url }) => configuredAgentUrl(url)))
  const listed = entries.filter(({ source, agentUrl }) => source === registry && !written.has(agentUrl))
  return listed.map(({ id }) => id)
}
