/**
 * Walks a wholesale feed from its first page to its last under one version, or says why it could not
 * (specification, "mid-pagination" and "Wholesale conditional-fetch rules"; docs/protocol.md#how-agents-differ, pages).
 */
import { isRecord } from '../../adcp/json.js'
import {
  type AgentError,
  type AgentOutcome,
  type CallFailure,
  callFailed,
  type Payload,
} from '../agent/agent.js'
import { type Collected, type Collector, createCollector } from '../rows/collect.js'

const MAX_PAGES = 20_000 // 100 rows a page: two million rows; beyond that an upstream is looping
const MAX_ROWS = 2_000_000
const MAX_BYTES = 4 * 1024 ** 3
const MAX_RESTARTS = 3
const MAX_IDLE_PAGES = 3 // pages in a row that bring nothing new
const MAX_CURSOR = 4_096
const UNIT_MS: Record<string, number> = {
  seconds: 1_000,
  minutes: 60_000,
  hours: 3_600_000,
  days: 86_400_000,
}

export type Tokens = { feedVersion?: string; pricingVersion?: string; cacheScope?: string }

export type WalkOutcome =
  | ({ kind: 'complete' } & Collected & Tokens)
  /** The conditional token matched. */
  | { kind: 'unchanged' }
  /** An overlay was asked for and there is none: the rate card applies ("`cache_scope`", specification). */
  | { kind: 'public' }
  /** The agent answered the first page with an AdCP error. */
  | { kind: 'error'; error: AgentError }
  | CallFailure

export type WalkOptions = {
  /** Fetches one page; without a cursor the first one. Retries are its business. */
  page(cursor: string | undefined): Promise<AgentOutcome>
  /** The first page may be asked for with tokens: then `unchanged` is an answer. */
  conditional: boolean
  /** The request carries an account: an answer of scope `public` ends the walk at once. */
  overlay: boolean
  maxPages?: number
  maxRows?: number
}

type Pagination = { kind: 'more'; cursor: string } | { kind: 'end' } | CallFailure

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function tokensOf(payload: Payload): Tokens {
  const feedVersion = text(payload.wholesale_feed_version)
  const pricingVersion = text(payload.pricing_version)
  const cacheScope = text(payload.cache_scope)
  return {
    ...(feedVersion && { feedVersion }),
    ...(pricingVersion && { pricingVersion }),
    ...(cacheScope && { cacheScope }),
  }
}

/** A page without tokens says nothing about a change: agents that do not declare versioning may leave them out. */
function moved(first: Tokens, page: Tokens): boolean {
  const differs = (a?: string, b?: string) => a !== undefined && b !== undefined && a !== b
  return differs(first.feedVersion, page.feedVersion) || differs(first.pricingVersion, page.pricingVersion)
}

function paginationOf(payload: Payload): Pagination {
  const { pagination } = payload
  if (!isRecord(pagination)) return { kind: 'end' }
  const cursor = text(pagination.cursor)
  if (pagination.has_more === false || (pagination.has_more === undefined && !cursor)) return { kind: 'end' }
  if (!cursor) return callFailed('protocol_error', 'has_more without a cursor')
  if (cursor.length > MAX_CURSOR) return callFailed('protocol_error', 'a cursor of more than 4096 characters')
  return { kind: 'more', cursor }
}

function durationMs(duration: unknown): number | undefined {
  if (!isRecord(duration)) return undefined
  const ms = Number(duration.interval) * (UNIT_MS[String(duration.unit)] ?? Number.NaN)
  return Number.isFinite(ms) && ms > 0 ? ms : undefined
}

/** What the agent could not finish makes the walk partial, except prices alone: those rows are whole. */
function incompleteness(payload: Payload): CallFailure | undefined {
  const entries = Array.isArray(payload.incomplete) ? payload.incomplete.filter(isRecord) : []
  const entry = entries.find(({ scope }) => scope === 'wholesale_feed' || scope === 'signals')
  if (!entry) return undefined
  return callFailed(
    'incomplete_feed',
    'the agent could not enumerate everything',
    durationMs(entry.estimated_wait),
  )
}

function shapeFailure(payload: Payload): CallFailure | undefined {
  if (payload.status === 'submitted' || payload.status === 'working') {
    return callFailed('protocol_error', 'a wholesale request was answered with a task')
  }
  if (payload.unchanged === true) return callFailed('protocol_error', '"unchanged" where no token was sent')
  return Array.isArray(payload.signals) ? undefined : callFailed('protocol_error', 'a page without signals')
}

/** One pass; `restart` when the version moved under it. */
async function passOnce(
  options: WalkOptions,
  first: Extract<AgentOutcome, { kind: 'answer' }>,
): Promise<WalkOutcome | { kind: 'restart' }> {
  const { page, maxPages = MAX_PAGES, maxRows = MAX_ROWS } = options
  const collector: Collector = createCollector()
  const tokens = tokensOf(first.payload)
  const cursors = new Set<string>()
  let answer = first
  let idle = 0
  for (let pages = 1; ; pages++) {
    const failure = shapeFailure(answer.payload) ?? incompleteness(answer.payload)
    if (failure) return failure
    if (moved(tokens, tokensOf(answer.payload))) return { kind: 'restart' }
    const next = paginationOf(answer.payload)
    if (next.kind === 'failed') return next
    if (next.kind === 'more') {
      if (cursors.has(next.cursor))
        return callFailed('cursor_loop', `a cursor came twice, after ${pages} pages`)
      if (pages >= maxPages) return callFailed('endless_feed', `more than ${maxPages} pages`)
      cursors.add(next.cursor)
    }
    // The next page travels while this one is read.
    const coming = next.kind === 'more' ? page(next.cursor) : undefined
    const { fresh, repeated } = await collector.take(answer.rows)
    idle = fresh === 0 ? idle + 1 : 0
    if (!coming) return { kind: 'complete', ...collector.finish(), ...tokens }
    const outcome = await coming
    if (collector.rows() > maxRows) return callFailed('endless_feed', `more than ${maxRows} rows`)
    if (collector.bytes() > MAX_BYTES) return callFailed('too_large', `more than ${MAX_BYTES} bytes of rows`)
    if (idle >= MAX_IDLE_PAGES) {
      const reason = repeated > 0 ? 'cursor_loop' : 'endless_feed'
      return callFailed(reason, `${MAX_IDLE_PAGES} pages in a row brought nothing new`)
    }
    if (outcome.kind === 'error') return callFailed('agent_error', `page ${pages + 1}: ${outcome.error.code}`)
    if (outcome.kind === 'failed') return outcome
    answer = outcome
  }
}

export async function walkFeed(options: WalkOptions): Promise<WalkOutcome> {
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts++) {
    const first = await options.page(undefined)
    if (first.kind !== 'answer') return first
    if (options.overlay && first.payload.cache_scope === 'public') return { kind: 'public' }
    if (first.payload.unchanged === true && options.conditional) return { kind: 'unchanged' }
    const outcome = await passOnce(options, first)
    if (outcome.kind !== 'restart') return outcome
  }
  return callFailed('unstable_feed', `the version moved during each of ${MAX_RESTARTS + 1} walks`)
}
