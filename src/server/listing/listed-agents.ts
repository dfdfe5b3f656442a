/**
 * The agents of the registry listing, and which of them a query means (specification, "Registry agent record"). An agent is shown as a
 * registry's directory says it; an upstream of ours has the health that we measured ourselves.
 */
import { shownUrl } from '../../adcp/redaction.js'
import { canonicalUrl } from '../../adcp/url.js'
import { FAILURE_WORDS } from '../../feed/incomplete.js'
import type { UpstreamFailure } from '../../upstreams/agent/agent.js'
import type { UpstreamStatus } from '../../upstreams/mirror/scope-status.js'
import type { RosterEntry } from '../../upstreams/roster/roster.js'
import {
  type Directory,
  type DirectoryAgent,
  MEMBERS,
  type Member,
  operationsOf,
  writtenMembers,
} from '../../upstreams/rows/directory.js'
import { type Flag, isBadgeQuery, isMeasurementQuery, type ListingQuery } from './listing-query.js'

/** What each flag adds; seen on the real registry (docs/protocol.md#registry). */
const ADDED: Readonly<Record<Flag, readonly Member[]>> = {
  health: ['health', 'stats'],
  capabilities: ['capabilities'],
  properties: ['publisher_domains', 'property_summary'],
  compliance: ['compliance'],
}

/** What a registry says of an upstream and we do not measure, in the order of `MEMBERS`. */
const SAID: readonly Member[] = [
  ...(['description', 'added_date', 'contact', 'member', 'stats', 'capabilities'] as const),
  ...ADDED.properties,
  ...ADDED.compliance,
]

/** Failures in which nothing that speaks for the agent answered. */
const OFFLINE: ReadonlySet<UpstreamFailure> = new Set([
  'refused',
  'unresolvable',
  'unreachable',
  'timeout',
  'server_error',
  'not_an_agent',
  'backing_off',
])

/** One agent as a registry lists it: the one at this place of its directory. */
export type Listed = { directory: Directory; at: number; agent: DirectoryAgent }

/** A tool (MCP) or a skill (A2A) of an agent. */
export type Tool = { name: string; description: string }

/** What we know of an upstream apart from its place in the roster. */
type Measured = {
  status?: UpstreamStatus
  answered?: { at: number; ms: number }
  tools?: readonly Tool[]
}

/** What a query is compared with. */
type Facts = Pick<DirectoryAgent, 'verified' | 'operations' | 'metricIds' | 'accreditations'>

/** An agent of the answer: what we say of it, and which members it has as a registry's directory says. */
export type Shown = {
  facts: Facts
  own?: Readonly<Record<string, unknown>>
  listed?: { from: Listed; members: readonly Member[] }
}

/** The agents of a directory. */
export const agentsIn = (directory: Directory): Listed[] =>
  directory.agents.map((agent, at) => ({ directory, at, agent }))

/** Of some members those that the flags ask for. What was fetched for a filter alone stays out. */
function asked(members: readonly Member[], flags: ReadonlySet<Flag>): readonly Member[] {
  const hidden = new Set(
    (Object.keys(ADDED) as Flag[]).flatMap((flag) => (flags.has(flag) ? [] : ADDED[flag])),
  )
  return members.filter((name) => !hidden.has(name))
}

/** Agents of others, as they are listed. */
export function shownAsListed(listed: readonly Listed[], flags: ReadonlySet<Flag>): Shown[] {
  const members = asked(MEMBERS, flags)
  return listed.map((from) => ({ facts: from.agent, listed: { from, members } }))
}

/** Exact on ids and bodies, substring on `q`; a substring has no wildcards, so `%` and `_` are themselves. */
function measuring({ metricIds, accreditations, q }: ListingQuery): (facts: Facts) => boolean {
  const [ids, bodies] = [new Set(metricIds), new Set(accreditations)]
  const wanted = q?.toLowerCase()
  return (facts) =>
    (ids.size === 0 || facts.metricIds.some((id) => ids.has(id))) &&
    (bodies.size === 0 || facts.accreditations.some((body) => bodies.has(body))) &&
    (wanted === undefined || facts.metricIds.some((id) => id.toLowerCase().includes(wanted)))
}

/**
 * Whether the query means an agent. A registry was asked for the axes of a badge, which no record spells out; one that ignored the
 * question lists agents without any badge, and those are told apart here.
 */
export function meant(query: ListingQuery): (shown: Shown) => boolean {
  const { operation } = query
  const measures = isMeasurementQuery(query) ? measuring(query) : () => true
  return ({ facts }) =>
    measures(facts) &&
    (!operation || facts.operations.includes(operation)) &&
    (!isBadgeQuery(query) || facts.verified)
}

/** Whether a record is that of an upstream by which the roster describes it, as far as registries tell when asked `query`. */
export function describes({ agent }: Listed, entry: RosterEntry, query: ListingQuery): boolean {
  const { type, member, verified } = agent
  const isTold = query.flags.has('compliance') || isBadgeQuery(query)
  return type === 'signals' && member === entry.member && (!isTold || verified === entry.verified)
}

function healthOf({ status, answered, tools }: Measured): Record<string, unknown> {
  const problem = status?.problem
  const online =
    status !== undefined && status.state !== 'starting' && !(problem && OFFLINE.has(problem.reason))
  return {
    online,
    ...(answered && { checked_at: new Date(answered.at).toISOString() }),
    ...(answered && online && { response_time_ms: Math.round(answered.ms) }),
    ...(tools && { tools_count: tools.length }),
    ...(problem && { error: FAILURE_WORDS[problem.reason] }),
  }
}

function capabilitiesOf({ status, tools = [] }: Measured): Record<string, unknown> {
  const offers = (name: string) => tools.some((tool) => tool.name === name)
  return {
    tools_count: tools.length,
    tools,
    signals_capabilities: {
      audience_types: [],
      can_match: false,
      can_activate: offers('activate_signal'),
      can_get_signals: offers('get_signals') || (status?.listings ?? 0) > 0,
    },
  }
}

/** An upstream of ours. `from` is how a registry describes it, for the parts that we do not measure. */
export function shownUpstream(
  entry: RosterEntry,
  measured: Measured,
  from: Listed | undefined,
  flags: ReadonlySet<Flag>,
): Shown {
  // For an agent that never answered, the registry's description is all that is known.
  const protocol = measured.status?.protocol ?? entry.protocol ?? from?.agent.protocol ?? 'mcp'
  const endpoint = measured.status?.url ?? shownUrl(entry.url)
  const says = (name: Member) =>
    from !== undefined && writtenMembers(from.directory, from.at, [name]).length > 0
  // Until its tools are known to us, the registry's word is better than none.
  const isAsListed = !measured.tools && says('capabilities')
  const capabilities = isAsListed ? undefined : capabilitiesOf(measured)
  const own = {
    name: entry.name,
    url: entry.agentUrl,
    type: 'signals',
    protocol,
    // Whoever reads us as its registry calls this one: it must lead where we call.
    ...((protocol !== 'a2a' || canonicalUrl(endpoint) !== entry.agentUrl) && { mcp_endpoint: endpoint }),
    ...(entry.member && !says('member') && { member: { slug: entry.member } }),
    ...(flags.has('health') && { health: healthOf(measured), ...(!says('stats') && { stats: {} }) }),
    ...(flags.has('capabilities') && capabilities && { capabilities }),
  }
  const operations = capabilities ? operationsOf(capabilities) : (from?.agent.operations ?? [])
  const members = asked(SAID, flags).filter((name) => name !== 'capabilities' || isAsListed)
  return {
    facts: { verified: from?.agent.verified ?? false, operations, metricIds: [], accreditations: [] },
    own,
    ...(from && { listed: { from, members } }),
  }
}
