/**
 * GET /api/registry/agents: the federated listing (specification, "Registry listing"). Signals agents are the upstreams
 * of the roster, with health that we measured; agents of other types are passed through from the registries. Another
 * Tributary that names us as its registry federates the same upstreams.
 *
 * What the registries list is read when somebody asks us. It is cached briefly and bounded: one request per registry and
 * question a minute, late answers go to the cache, and for a registry that fails its last answer is used. Only words from
 * closed lists are passed on, so callers cannot make us ask arbitrary questions. Which tools or skills each upstream offers is
 * asked seldom, a few upstreams at a time, and only when somebody reads the listing.
 */
import { hash, randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { boundedText, isRecord, tryParseJson } from '../adcp/json.js'
import { shownUrl } from '../adcp/redaction.js'
import type { Send } from '../net/send.js'
import { createRecent } from '../process/memory.js'
import { createA2aAgent } from '../upstreams/agent/a2a.js'
import type { Protocol } from '../upstreams/agent/agent.js'
import { createMcpAgent } from '../upstreams/agent/mcp.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import { placesOf } from '../upstreams/rows/registry-records.js'
import type { Entered, RateLimiter } from './door/admission.js'
import type { Door } from './door/door.js'
import { limited, refusePlainly, type TurnedAway, turnedAway } from './door/turned-away.js'
import {
  type AgentRecord,
  describes,
  holdsBadge,
  isBadgeQuery,
  isMeasurementQuery,
  type Listed,
  type ListingQuery,
  measures,
  operates,
  readListed,
  readListingQuery,
  shownRecord,
  type Tool,
  typesOf,
  upstreamRecord,
} from './listed-agents.js'

const FRESH_MS = 60_000
const PARTIAL_FRESH_MS = 1_000 // a federated registry that says it is incomplete may know more in a moment
const KEPT_MS = 60 * 60_000
const WAIT_MS = 3_000 // for a first answer; then the listing goes out without it
const TIMEOUT_MS = 15_000
const MAX_BYTES = 32 * 1024 * 1024
const MAX_CACHED_BYTES = 64 * 1024 * 1024
const MAX_QUESTIONS = 200
const MAX_VALUES = 2_000_000
const MAX_RECORDS = 10_000
const CONCURRENCY = 4 // questions to registries, and to upstreams
const SURVEY_MS = 2_000 // tools that are not known by then come with the next request
const TOOLS_FRESH_MS = 60 * 60_000
const TOOLS_TIMEOUT_MS = 10_000
const MAX_AGENTS = 10_000
const MAX_TOOLS = 200
const MAX_NAME = 100
const MAX_DESCRIPTION = 500

type ListingRegistry = { url: string; headers?: Readonly<Record<string, string>> }

type Found = {
  /** In the order of the registries. */
  answers: readonly { source: string; listed: readonly Listed[] }[]
  /** How many registries have not answered this question lately. */
  silent: number
}

type Answer = { listed: readonly Listed[]; freshMs: number; bytes: number; etag?: string; at: number }

type Body = { agents: AgentRecord[]; count: number; incomplete?: { description: string }[] }

type RegistryListingOptions = {
  registries(): readonly ListingRegistry[]
  /** To registries. */
  send: Send
  sendToUpstreams: Send
  roster(): Roster
  statuses(): readonly UpstreamStatus[]
  /** The last answer that each agent (canonical url) gave to anything. */
  lastAnswer(agentUrl: string): { at: number; ms: number } | undefined
  now(): number
  /** Resolves after that many milliseconds. */
  pause(ms: number): Promise<void>
}

/** Undefined when it is no listing: the registry counts as silent. */
function readAnswer(body: Uint8Array): Pick<Answer, 'listed' | 'freshMs'> | undefined {
  const listing = tryParseJson(body, MAX_VALUES)
  if (!isRecord(listing) || !Array.isArray(listing.agents)) return undefined
  const listed = listing.agents.slice(0, MAX_RECORDS).flatMap((raw) => readListed(raw) ?? [])
  return { listed, freshMs: listing.incomplete === undefined ? FRESH_MS : PARTIAL_FRESH_MS }
}

function createRegistrySource({ registries, send, now, pause }: RegistryListingOptions) {
  /** Names this process in `Via`: two Tributaries that list each other must not ask each other forever. */
  const instance = `tributary-${randomUUID().slice(0, 8)}`
  const answers = new LRUCache<string, Answer>({
    max: MAX_QUESTIONS,
    maxSize: MAX_CACHED_BYTES,
    sizeCalculation: ({ bytes }) => bytes + 1,
  })
  const asking = new Map<string, Promise<void>>()
  const limit = pLimit(CONCURRENCY)
  const closing = new AbortController()

  async function ask(key: string, { url, headers }: ListingRegistry, question: string, via: string) {
    const held = answers.get(key)
    const reply = await send({
      url: `${url}/api/registry/agents${question && `?${question}`}`,
      headers: {
        accept: 'application/json',
        ...headers,
        via: `${via && `${via}, `}1.1 ${instance}`,
        ...(held?.etag && { 'if-none-match': held.etag }),
      },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      redirects: 'same-site',
      signal: closing.signal,
    })
    if (reply.kind === 'failed') return
    if (reply.status === 304 && held) answers.set(key, { ...held, at: now() })
    const answer = reply.status === 200 ? readAnswer(reply.body) : undefined
    if (!answer) return
    const { etag } = reply.headers
    answers.set(key, { ...answer, bytes: reply.body.byteLength, at: now(), ...(etag && { etag }) })
  }

  /** One question to one registry is under way only once, however many callers wait for it. */
  function refresh(key: string, registry: ListingRegistry, question: string, via: string): Promise<void> {
    const under = asking.get(key)
    if (under) return under
    const asked = limit(() => ask(key, registry, question, via)).finally(() => asking.delete(key))
    asking.set(key, asked)
    return asked
  }

  async function answerOf(registry: ListingRegistry, question: string, via: string) {
    const key = `${registry.url} ${question}`
    const held = answers.get(key)
    const isFresh = held !== undefined && now() - held.at < held.freshMs
    if (!isFresh && !via.includes(instance)) {
      const asked = refresh(key, registry, question, via)
      if (!held) await Promise.race([asked, pause(WAIT_MS)])
    }
    const answer = answers.get(key)
    return answer && now() - answer.at < KEPT_MS ? answer.listed : undefined
  }

  return {
    /** Everything that all registries list for the question, in their order. `via` is the asker's header. */
    async find(question: URLSearchParams, via: string): Promise<Found> {
      const all = registries()
      const found = await Promise.all(all.map((registry) => answerOf(registry, question.toString(), via)))
      return {
        answers: all.map(({ url }, at) => ({ source: url, listed: found[at] ?? [] })),
        silent: found.filter((listed) => listed === undefined).length,
      }
    },
    close: () => closing.abort(),
  }
}

/** Tools as MCP lists them, or skills, whose `id` is the name that a call uses (docs/protocol.md#a2a). */
function readTools(list: unknown): Tool[] | undefined {
  if (!Array.isArray(list)) return undefined
  return list
    .filter(isRecord)
    .slice(0, MAX_TOOLS)
    .flatMap((raw) => {
      const name = boundedText(raw.id ?? raw.name, MAX_NAME)
      return name ? [{ name, description: boundedText(raw.description, MAX_DESCRIPTION) ?? '' }] : []
    })
}

/** Where an upstream is called, as its status shows it, and what it speaks there. */
type Called = { url: string; protocol: Protocol }

/** Asks nobody before its first `update`. A failed upstream is asked again later; nothing else depends on it. */
function createToolSurvey({ send, now }: { send: Send; now(): number }) {
  const known = createRecent<{ tools: readonly Tool[] | undefined; at: number }>(MAX_AGENTS)
  const asking = new Map<string, Promise<void>>()
  const limit = pLimit(CONCURRENCY)

  async function ask(entry: RosterEntry, { url: shown, protocol }: Called): Promise<Tool[] | undefined> {
    const { auth } = entry
    const url = placesOf(entry).find((place) => shownUrl(place) === shown) ?? entry.url
    const agent = (protocol === 'mcp' ? createMcpAgent : createA2aAgent)({ send, url, auth })
    const found = await agent.tools({ timeoutMs: TOOLS_TIMEOUT_MS })
    return found.kind === 'tools' ? readTools(found.tools) : undefined
  }

  async function refresh(entry: RosterEntry, called: Called): Promise<void> {
    const tools = (await ask(entry, called)) ?? known.get(entry.agentUrl)?.tools
    known.set(entry.agentUrl, { tools, at: now() })
  }

  return {
    /** Resolves when the tools of the upstream are up to date or could not be read; `tools` then gives them. */
    async update(entry: RosterEntry, called: Called): Promise<void> {
      const held = known.get(entry.agentUrl)
      if (held && now() - held.at < TOOLS_FRESH_MS) return
      const under =
        asking.get(entry.agentUrl) ??
        limit(() => refresh(entry, called)).finally(() => asking.delete(entry.agentUrl))
      asking.set(entry.agentUrl, under)
      await under
    },
    tools: (agentUrl: string) => known.get(agentUrl)?.tools,
  }
}

/** The question passed on to registries: only words from closed sets. */
function questionOf(query: ListingQuery): URLSearchParams {
  const question = new URLSearchParams()
  const [type] = typesOf(query) ?? []
  // The registry may know values that we do not.
  if (type && type !== 'unknown') question.set('type', type)
  const flags = new Set(query.flags)
  if (isMeasurementQuery(query) || query.operation) flags.add('capabilities')
  if (isBadgeQuery(query)) flags.add('compliance')
  for (const flag of [...flags].sort()) question.set(flag, 'true')
  for (const axis of [...query.axes].sort()) question.append('verification_mode', axis)
  if (query.verified) question.set('verified', 'true')
  if (query.operation) question.set('creative_operation', query.operation)
  return question
}

/** By upstream, the record that describes it in the roster too: another may be of somebody whom policy does not admit. */
function describing(
  answers: Found['answers'],
  entries: readonly RosterEntry[],
  query: ListingQuery,
): Map<string, AgentRecord> {
  const upstreams = new Map(entries.map((entry) => [`${entry.source} ${entry.agentUrl}`, entry]))
  const records = new Map<string, AgentRecord>()
  for (const { source, listed } of answers) {
    for (const { agentUrl, record } of listed) {
      const entry = upstreams.get(`${source} ${agentUrl}`)
      if (entry && !records.has(agentUrl) && describes(record, entry, query)) records.set(agentUrl, record)
    }
  }
  return records
}

/**
 * The first registry to list an agent describes it; one agent may stand there once a type. `unknown` is no type of an agent that
 * somebody knows.
 */
function deduplicated(
  listed: readonly Listed[],
  isUpstream: (agentUrl: string) => boolean,
): Map<string, Listed> {
  const known = new Set(listed.flatMap(({ record, agentUrl }) => (record.type === 'unknown' ? [] : agentUrl)))
  const byAgent = new Map<string, Listed>()
  for (const each of listed) {
    const { agentUrl, record } = each
    if (record.type === 'unknown' && (known.has(agentUrl) || isUpstream(agentUrl))) continue
    const key = `${record.type} ${agentUrl}`
    if (!byAgent.has(key)) byAgent.set(key, each)
  }
  return byAgent
}

export function createRegistryListing(options: RegistryListingOptions) {
  const { roster, statuses, lastAnswer, sendToUpstreams, now, pause } = options
  const source = createRegistrySource(options)
  const survey = createToolSurvey({ send: sendToUpstreams, now })

  async function surveyed(): Promise<void> {
    const known = new Map(statuses().map((status) => [status.id, status]))
    const updates = roster().entries.map((entry) => {
      const { url = '', protocol } = known.get(entry.id) ?? {}
      return protocol ? survey.update(entry, { url, protocol }) : undefined
    })
    await Promise.race([Promise.all(updates), pause(SURVEY_MS)])
  }

  function upstreams(listed: ReadonlyMap<string, AgentRecord>): AgentRecord[] {
    const byId = new Map(statuses().map((status) => [status.id, status]))
    return roster().entries.map((entry) => {
      const status = byId.get(entry.id)
      const answered = lastAnswer(entry.agentUrl)
      const tools = survey.tools(entry.agentUrl)
      const measured = { ...(status && { status }), ...(answered && { answered }), ...(tools && { tools }) }
      return upstreamRecord(entry, measured, listed.get(entry.agentUrl))
    })
  }

  /** The answer to a query. `via` is the asker's header of that name. */
  async function list(query: ListingQuery, via: string): Promise<Body> {
    const types = typesOf(query)
    const wantsSignals = !types || types.includes('signals')
    const needsTools = query.flags.has('health') || query.flags.has('capabilities') || query.operation
    const [{ answers, silent }] = await Promise.all([
      types?.length === 0 ? { answers: [], silent: 0 } : source.find(questionOf(query), via),
      wantsSignals && needsTools ? surveyed() : undefined,
    ])
    const { entries } = roster()
    const ours = new Set(entries.map(({ agentUrl }) => agentUrl))
    const all = answers.flatMap(({ listed }) => listed)
    const found = deduplicated(all, (agentUrl) => ours.has(agentUrl))
    const others = [...found.values()]
      .map(({ record }) => record)
      .filter(({ type }) => type !== 'signals' && (!types || types.includes(type)))
    const agents = [...(wantsSignals ? upstreams(describing(answers, entries, query)) : []), ...others]
      .filter(
        (record) =>
          (!isMeasurementQuery(query) || measures(record, query)) &&
          (!query.operation || operates(record, query.operation)) &&
          holdsBadge(record, query),
      )
      .map((record) => shownRecord(record, query.flags))
    // The number only: the addresses of registries are the operator's business.
    const description = `Registries behind this one that have not answered lately: ${silent}`
    return { agents, count: agents.length, ...(silent > 0 && { incomplete: [{ description }] }) }
  }

  return { list, close: source.close }
}

function matches(condition: string | undefined, etag: string): boolean {
  if (condition === undefined) return false
  const bare = (tag: string) => tag.trim().replace(/^W\//, '')
  return condition.trim() === '*' || condition.split(',').some((tag) => bare(tag) === bare(etag))
}

export type ListingRouteOptions = {
  door: Door
  limiter: RateLimiter
  now(): number
  list: ReturnType<typeof createRegistryListing>['list']
}

/** Whoever may call this agent may read the listing: `callers.anonymous` decides for callers without a key. */
export function addRegistryListing(
  app: FastifyInstance,
  { door, limiter, now, list }: ListingRouteOptions,
): void {
  function objection(who: Entered | TurnedAway): TurnedAway | undefined {
    if (who.kind === 'turned_away') return who
    const wait = limiter.take(who.bucket, now())
    if (wait > 0) return limited(wait)
    if (who.kind === 'caller') return undefined
    return turnedAway(403, 0, 'These credentials give no access here')
  }

  app.get('/api/registry/agents', async (request: FastifyRequest, reply) => {
    const refused = objection(await door.enter(request))
    if (refused) return refusePlainly(reply, refused)
    const query = readListingQuery(new URL(request.url, 'http://localhost').searchParams)
    if ('error' in query) return reply.code(400).header('cache-control', 'no-store').send(query)
    const { via = '', 'if-none-match': condition } = request.headers
    const body = JSON.stringify(await list(query, String(via)))
    const etag = `W/"${hash('sha256', body, 'base64url').slice(0, 27)}"`
    reply.headers({ etag, 'cache-control': 'no-cache', vary: 'authorization' })
    if (matches(condition, etag)) return reply.code(304).send()
    return reply.type('application/json; charset=utf-8').send(body)
  })
}
