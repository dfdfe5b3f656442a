/**
 * What a registry says of agents of all types, as it is passed on to those who ask us: known members of each agent, written as JSON,
 * and beside them what a question is compared with. Each member has a bound, and all of them together have one, so that what is held
 * and sent does not depend on what a registry chooses to say. Pure, so a thread can do it.
 */
import { boundedText, isRecord, tryParseJson } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'

const MAX_RECORDS = 10_000
const MAX_VALUES = 2_000_000
const MAX_TEXT = 2_048
const MAX_PART = 16 * 1024 // characters of JSON, of a member that is no text
const MAX_LONG_PART = 128 * 1024 // of one that lists tools or domains
const AGENT_BYTES = 512 // what is held of an agent beside its texts
const WORD_BYTES = 48 // and of each word that a question is compared with

export const AGENT_TYPES = [
  'brand',
  'rights',
  'measurement',
  'governance',
  'creative',
  'sales',
  'buying',
  'signals',
  'unknown',
] as const
export type AgentType = (typeof AGENT_TYPES)[number]

export const OPERATIONS = ['build', 'preview', 'validate'] as const
/** What an agent can do with a creative. */
export type Operation = (typeof OPERATIONS)[number]

const CAN: Readonly<Record<Operation, string>> = {
  build: 'can_generate',
  preview: 'can_preview',
  validate: 'can_validate',
}

const TEXT_MEMBERS = ['name', 'url', 'type', 'protocol', 'description', 'mcp_endpoint', 'added_date'] as const

/** The members that are passed on, in the order in which they are written. */
export const MEMBERS = [
  ...TEXT_MEMBERS,
  'contact',
  'member',
  'health',
  'stats',
  'capabilities',
  'publisher_domains',
  'property_summary',
  'compliance',
] as const
export type Member = (typeof MEMBERS)[number]

const TEXTS: ReadonlySet<Member> = new Set(TEXT_MEMBERS)
const LONG: ReadonlySet<Member> = new Set(['capabilities', 'publisher_domains'])

/** What a question is compared with. */
export type DirectoryAgent = {
  /** Canonical. */
  agentUrl: string
  type: AgentType
  protocol?: string
  /** The slug of the member whose agent it is. */
  member?: string
  verified: boolean
  operations: readonly Operation[]
  metricIds: readonly string[]
  /** The bodies that accredited one of its metrics. */
  accreditations: readonly string[]
}

export type Directory = {
  agents: readonly DirectoryAgent[]
  /** The members of all agents, each as `,"name":value`: of each agent `MEMBERS.length`, of which some are empty. */
  bytes: Uint8Array
  /** Where each of them ends. */
  ends: Uint32Array
  /** About as many bytes as the directory takes. */
  size: number
  /** Agents for which there was no room. */
  leftOut: number
  /** The registry says that it does not know all. */
  isPartial: boolean
}

function objects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

function words(values: readonly unknown[]): string[] {
  return [...new Set(values.filter((value) => typeof value === 'string'))]
}

/** What an agent can do with creatives: as its capabilities say, or by the names of its tools. */
export function operationsOf(capabilities: unknown): Operation[] {
  if (!isRecord(capabilities)) return []
  const { creative_capabilities: creative, tools } = capabilities
  const names = new Set(objects(tools).map(({ name }) => name))
  return OPERATIONS.filter(
    (operation) =>
      (isRecord(creative) && creative[CAN[operation]] === true) || names.has(`${operation}_creative`),
  )
}

function metricsOf(capabilities: unknown): Record<string, unknown>[] {
  const measurement = isRecord(capabilities) ? capabilities.measurement_capabilities : undefined
  return isRecord(measurement) ? objects(measurement.metrics) : []
}

/** The member as it is written; empty when it is absent, no text where it should be one, or beyond its bound. */
function written(name: Member, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (TEXTS.has(name) && (typeof value !== 'string' || value.length > MAX_TEXT)) return ''
  const json = JSON.stringify(value)
  const isWithin = TEXTS.has(name) || json.length <= (LONG.has(name) ? MAX_LONG_PART : MAX_PART)
  return isWithin ? `,"${name}":${json}` : ''
}

type Cut = { agent: DirectoryAgent; members: readonly Buffer[]; size: number }

/** Undefined without a usable url. A type that we do not know becomes `unknown`. */
function cut(raw: unknown): Cut | undefined {
  if (!isRecord(raw)) return undefined
  const url = raw.url ?? raw.mcp_endpoint
  const agentUrl = typeof url === 'string' && url.length <= MAX_TEXT ? canonicalUrl(url) : undefined
  if (!agentUrl) return undefined
  const type = AGENT_TYPES.find((each) => each === raw.type) ?? 'unknown'
  const said: Readonly<Record<string, unknown>> = { ...raw, url, type }
  const texts = MEMBERS.map((name) => written(name, said[name]))
  /** What is not passed on is compared with nothing. */
  const passedOn = (name: Member) => (texts[MEMBERS.indexOf(name)] === '' ? undefined : raw[name])
  const [capabilities, compliance, member] = [
    passedOn('capabilities'),
    passedOn('compliance'),
    passedOn('member'),
  ]
  const metrics = metricsOf(capabilities)
  const [protocol, slug] = [
    boundedText(raw.protocol),
    isRecord(member) ? boundedText(member.slug) : undefined,
  ]
  const agent = {
    ...{ agentUrl, type },
    ...(protocol && { protocol }),
    ...(slug && { member: slug }),
    verified: isRecord(compliance) && compliance.verified === true,
    operations: operationsOf(capabilities),
    metricIds: words(metrics.map(({ metric_id }) => metric_id)),
    accreditations: words(
      metrics.flatMap(({ accreditations }) => objects(accreditations).map((each) => each.accrediting_body)),
    ),
  }
  const members = texts.map((text) => Buffer.from(text))
  return { agent, members, size: sizeOf(agent, members) }
}

function sizeOf({ agentUrl, metricIds, accreditations }: DirectoryAgent, members: readonly Buffer[]): number {
  const compared = [...metricIds, ...accreditations]
  const bytes = members.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const inWords = compared.reduce((sum, { length }) => sum + length, WORD_BYTES * compared.length)
  return AGENT_BYTES + bytes + agentUrl.length + inWords
}

/** In memory of its own, which can be handed over. */
function packed(cuts: readonly Cut[]): Pick<Directory, 'bytes' | 'ends'> {
  const members = cuts.flatMap((each) => each.members)
  const ends = new Uint32Array(members.length)
  const bytes = new Uint8Array(members.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let end = 0
  for (const [at, member] of members.entries()) {
    bytes.set(member, end)
    end += member.byteLength
    ends[at] = end
  }
  return { bytes, ends }
}

/** What the bytes that a registry sent say, as far as it takes no more than `room` bytes; undefined when they are no listing. */
export function readDirectory(body: Uint8Array, room: number): Directory | undefined {
  const listing = tryParseJson(body, MAX_VALUES)
  if (!isRecord(listing) || !Array.isArray(listing.agents)) return undefined
  const cuts: Cut[] = []
  let leftOut = Math.max(0, listing.agents.length - MAX_RECORDS)
  let size = 0
  for (const raw of listing.agents.slice(0, MAX_RECORDS)) {
    const read = cut(raw)
    if (!read) continue
    if (size + read.size > room) {
      leftOut += 1
      continue
    }
    size += read.size
    cuts.push(read)
  }
  const agents = cuts.map(({ agent }) => agent)
  return { agents, ...packed(cuts), size, leftOut, isPartial: listing.incomplete !== undefined }
}

/**
 * These members of one agent as they are written, without the empty ones; names in the order of `MEMBERS`. What stands together is
 * one piece.
 */
export function writtenMembers(
  { bytes, ends }: Directory,
  agent: number,
  names: readonly Member[],
): Uint8Array[] {
  const spans: { begin: number; end: number }[] = []
  for (const name of names) {
    const at = agent * MEMBERS.length + MEMBERS.indexOf(name)
    const [begin, end] = [ends[at - 1] ?? 0, ends[at] as number]
    if (begin === end) continue
    const last = spans.at(-1)
    if (last?.end === begin) last.end = end
    else spans.push({ begin, end })
  }
  return spans.map(({ begin, end }) => bytes.subarray(begin, end))
}
