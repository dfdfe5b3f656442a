/**
 * The agents of the registry listing, and which of them a query means (specification, "Registry agent record"). A record of a
 * registry is cut down to the known sub-objects; that of an upstream of ours has the health that we measured ourselves.
 */
import { isRecord } from '../../adcp/json.js'
import { shownUrl } from '../../adcp/redaction.js'
import { canonicalUrl } from '../../adcp/url.js'
import { FAILURE_WORDS } from '../../feed/incomplete.js'
import type { UpstreamFailure } from '../../upstreams/agent/agent.js'
import type { UpstreamStatus } from '../../upstreams/mirror/scope-status.js'
import type { RosterEntry } from '../../upstreams/roster/roster.js'
import {
  AGENT_TYPES,
  type AgentType,
  type Flag,
  isBadgeQuery,
  type ListingQuery,
  type Operation,
} from './listing-query.js'

const MAX_TEXT = 2_048

const TEXTS = ['name', 'protocol', 'description', 'mcp_endpoint', 'added_date'] as const

/** What each flag adds; seen on the real registry (docs/protocol.md#registry). */
const ADDED: Readonly<Record<Flag, readonly string[]>> = {
  health: ['health', 'stats'],
  capabilities: ['capabilities'],
  properties: ['publisher_domains', 'property_summary'],
  compliance: ['compliance'],
}

const CAN: Readonly<Record<Operation, string>> = {
  build: 'can_generate',
  preview: 'can_preview',
  validate: 'can_validate',
}

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

export type AgentRecord = Readonly<Record<string, unknown>> & { url: string; type: AgentType }

/** One agent as a registry lists it. */
export type Listed = { agentUrl: string; record: AgentRecord }

/** A tool (MCP) or a skill (A2A) of an agent. */
export type Tool = { name: string; description: string }

/** What we know of an upstream apart from its place in the roster. */
type Measured = {
  status?: UpstreamStatus
  answered?: { at: number; ms: number }
  tools?: readonly Tool[]
}

function objects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

function pick(from: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]]])))
}

/**
 * A registry's record in known fields; undefined without a usable url. A type that we do not know becomes `unknown`.
 */
export function readListed(raw: unknown): Listed | undefined {
  if (!isRecord(raw)) return undefined
  const url = raw.url ?? raw.mcp_endpoint
  const agentUrl = typeof url === 'string' && url.length <= MAX_TEXT ? canonicalUrl(url) : undefined
  if (!agentUrl) return undefined
  const type = AGENT_TYPES.find((each) => each === raw.type) ?? 'unknown'
  const texts = Object.fromEntries(
    Object.entries(pick(raw, TEXTS)).filter(
      ([, text]) => typeof text === 'string' && text.length <= MAX_TEXT,
    ),
  )
  const parts = pick(raw, ['contact', 'member', ...Object.values(ADDED).flat()])
  return { agentUrl, record: { url: url as string, type, ...texts, ...parts } }
}

/** The sub-objects that no flag asked for stay out, whatever they were fetched for. */
export function shownRecord(record: AgentRecord, flags: ReadonlySet<Flag>): AgentRecord {
  const hidden = (Object.keys(ADDED) as Flag[])
    .filter((flag) => !flags.has(flag))
    .flatMap((flag) => ADDED[flag])
  return Object.fromEntries(Object.entries(record).filter(([name]) => !hidden.includes(name))) as AgentRecord
}

function metricsOf({ capabilities }: AgentRecord): Record<string, unknown>[] {
  const measurement = isRecord(capabilities) ? capabilities.measurement_capabilities : undefined
  return isRecord(measurement) ? objects(measurement.metrics) : []
}

/** Exact on ids and bodies, substring on `q`; a substring has no wildcards, so `%` and `_` are themselves. */
export function measures(record: AgentRecord, { metricIds, accreditations, q }: ListingQuery): boolean {
  const metrics = metricsOf(record)
  const ids = metrics.flatMap(({ metric_id }) => (typeof metric_id === 'string' ? [metric_id] : []))
  const bodies = metrics.flatMap((metric) =>
    objects(metric.accreditations).map((each) => each.accrediting_body),
  )
  const wanted = q?.toLowerCase()
  return (
    (metricIds.length === 0 || ids.some((id) => metricIds.includes(id))) &&
    (accreditations.length === 0 || bodies.some((body) => accreditations.includes(String(body)))) &&
    (wanted === undefined || ids.some((id) => id.toLowerCase().includes(wanted)))
  )
}

/** Whether it can do with creatives what is asked for: as its record says, or by the name of one of its tools. */
export function operates({ capabilities }: AgentRecord, operation: Operation): boolean {
  if (!isRecord(capabilities)) return false
  const creative = capabilities.creative_capabilities
  const says = isRecord(creative) && creative[CAN[operation]] === true
  return says || objects(capabilities.tools).some(({ name }) => name === `${operation}_creative`)
}

/**
 * A registry was asked for the axes, which no record spells out; one that ignored the question lists agents without any
 * badge, and those are told apart here.
 */
export function holdsBadge({ compliance }: AgentRecord, query: ListingQuery): boolean {
  return !isBadgeQuery(query) || (isRecord(compliance) && compliance.verified === true)
}

/** Whether a record is that of an upstream by which the roster describes it, as far as registries tell when asked `query`. */
export function describes(record: AgentRecord, entry: RosterEntry, query: ListingQuery): boolean {
  const { type, member, compliance } = record
  const slug = isRecord(member) ? member.slug : undefined
  const isVerified = isRecord(compliance) && compliance.verified === true
  const isTold = query.flags.has('compliance') || isBadgeQuery(query)
  return type === 'signals' && slug === entry.member && (!isTold || isVerified === entry.verified)
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

/** An upstream of ours. `listed` is how a registry describes it, for the parts that we do not measure. */
export function upstreamRecord(
  entry: RosterEntry,
  measured: Measured,
  listed: AgentRecord | undefined,
): AgentRecord {
  // For an agent that never answered, the registry's description is all that is known.
  const protocol = measured.status?.protocol ?? entry.protocol ?? listed?.protocol ?? 'mcp'
  const endpoint = measured.status?.url ?? shownUrl(entry.url)
  const member = listed?.member ?? (entry.member && { slug: entry.member })
  return {
    name: entry.name,
    url: entry.agentUrl,
    type: 'signals',
    protocol,
    ...(listed && pick(listed, ['description'])),
    // Whoever reads us as its registry calls this one: it must lead where we call.
    ...((protocol !== 'a2a' || canonicalUrl(endpoint) !== entry.agentUrl) && { mcp_endpoint: endpoint }),
    ...(listed && pick(listed, ['added_date', 'contact'])),
    ...(member ? { member } : {}),
    health: healthOf(measured),
    stats: listed?.stats ?? {},
    // Until its tools are known to us, the registry's word is better than none.
    capabilities: (!measured.tools && listed?.capabilities) || capabilitiesOf(measured),
    ...(listed && pick(listed, [...ADDED.properties, ...ADDED.compliance])),
  }
}
