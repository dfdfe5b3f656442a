/**
 * Walks a wholesale feed from its first page to its last under one version, or says why it could not (specification,
 * "mid-pagination" and "Wholesale conditional-fetch rules"; docs/protocol.md#how-agents-differ, pages).
 */
import { hash } from 'node:crypto'
import { howMany } from '../../adcp/answer.js'
import { isRecord, scalarText } from '../../adcp/json.js'
import { UNIT_MS } from '../../adcp/signal-requests.js'
import { giveBackMoved } from '../../process/memory.js'
import {
  type AgentError,
  type AgentOutcome,
  type CallFailure,
  callFailed,
  type Payload,
} from '../agent/agent.js'
import { type Collected, type Collector, createCollector } from '../rows/new-slice.js'
import { PARTS, type Part } from '../rows/slice.js'
import { moved, type Tokens, tokensOf } from './tokens.js'

const MAX_PAGES = 20_000 // 100 rows a page: two million rows; beyond that an upstream is looping
const MAX_BYTES = 4 * 1024 ** 3
const MAX_RESTARTS = 3
const MAX_NEEDLESS_PAGES = 3 // empty pages in a row after all rows that the agent counts have come
const MAX_CURSOR = 4_096

/** What a walk ends with when `gathers` says so. */
export const OVER_MEMORY = callFailed(
  'over_memory',
  "its rows take more memory than anybody else's, and there is no more",
)

export type WalkOutcome =
  | ({ kind: 'complete'; out: readonly Part[] } & Collected & Tokens)
  /** The conditional token matched, as the agent says: with the tokens that it says this under, and whether it could tell all. */
  | ({ kind: 'unchanged'; isWhole: boolean } & Tokens)
  /** An overlay was asked for and, as a whole answer says, there is none ("`cache_scope`", specification). */
  | { kind: 'public' }
  /** The agent answered the first page with an AdCP error. */
  | { kind: 'error'; error: AgentError }
  | CallFailure

type WalkOptions = {
  /** Fetches one page; without a cursor the first one. Retries are its business. */
  page(cursor: string | undefined): Promise<AgentOutcome>
  /** The first page may be asked for with tokens: then `unchanged` is an answer. */
  conditional: boolean
  /** The request carries an account: an answer of scope `public` ends the walk at once. */
  overlay: boolean
  /** For all pages and restarts together, ms: however slowly an upstream gives them. */
  walkMs: number
  now(): number
  maxRows: number
  /** Told how much has been gathered; false when it may not go on (upstreams/walk/governor.ts). */
  gathers(rows: number, bytes: number): boolean
}

type Pagination = { kind: 'more'; cursor: string } | { kind: 'end' } | CallFailure

function waitOf(duration: unknown): number | undefined {
  if (!isRecord(duration)) return undefined
  const unit = UNIT_MS[scalarText(duration.unit) as keyof typeof UNIT_MS] ?? Number.NaN
  const ms = Number(scalarText(duration.interval)) * unit
  return Number.isFinite(ms) && ms > 0 ? ms : undefined
}

/**
 * What an agent says it could not finish (specification, "IncompleteEntry"): rows that are missing make a walk useless,
 * a part that is missing from all rows (prices, coverage) is an outage of that part alone.
 */
function entriesOf({ incomplete }: Payload): Record<string, unknown>[] {
  return Array.isArray(incomplete) ? incomplete.filter(isRecord) : []
}

const failedBy = (entry: Record<string, unknown> | undefined, message: string): CallFailure | undefined =>
  entry && callFailed('incomplete_feed', message, waitOf(entry.estimated_wait))

/** An answer that lacks rows, as the reason why its reading failed. */
export function missingRows(payload: Payload): CallFailure | undefined {
  const lacks = entriesOf(payload).find(({ scope }) => scope === 'wholesale_feed' || scope === 'signals')
  return failedBy(lacks, 'the agent could not enumerate everything')
}

/** The parts that the rows of a page lack. */
export function partsOut(payload: Payload): Part[] {
  const scopes = entriesOf(payload).map(({ scope }) => scope)
  return PARTS.filter((part) => scopes.includes(part))
}

/** What comes after a page; a cursor longer than may be kept is a failure. */
function paginationOf(payload: Payload): Pagination {
  const { pagination } = payload
  if (!isRecord(pagination)) return { kind: 'end' }
  const cursor = typeof pagination.cursor === 'string' ? pagination.cursor : ''
  if (pagination.has_more === false || (pagination.has_more === undefined && cursor === ''))
    return { kind: 'end' }
  if (cursor === '') return callFailed('protocol_error', 'has_more without a cursor')
  if (cursor.length > MAX_CURSOR) return callFailed('protocol_error', 'a cursor of more than 4096 characters')
  return { kind: 'more', cursor }
}

/** Where to go on after a page, where that is possible. */
export function nextCursor(payload: Payload): string | undefined {
  const next = paginationOf(payload)
  return next.kind === 'more' ? next.cursor : undefined
}

function shapeFailure(payload: Payload): CallFailure | undefined {
  if (payload.status === 'submitted' || payload.status === 'working') {
    return callFailed('protocol_error', 'a wholesale request was answered with a task')
  }
  if (payload.unchanged === true) return callFailed('protocol_error', '"unchanged" where no token was sent')
  return Array.isArray(payload.signals) ? undefined : callFailed('protocol_error', 'a page without signals')
}

/**
 * Tells a feed that goes on from one that goes round. Cursors never come twice. Pages without rows, and pages of rows
 * that came before, are no loop as such: only when a whole round of known rows came, or when everything that the agent
 * counts has come and pages go on.
 */
function createLoopGuard() {
  const cursors = new Set<string>() // eight bytes of the hash of each: a long walk sees many, and they may be long
  let rows = 0
  let fresh = 0
  let again = 0 // known rows since the last new one
  let announced = 0 // the largest `total_count` that a page stated
  let needless = 0

  return {
    /** False for a cursor that came before. */
    goesOn(cursor: string): boolean {
      const seen = cursors.size
      return cursors.add(hash('sha256', cursor, 'buffer').toString('latin1', 0, 8)).size > seen
    },
    take({ pagination }: Payload, page: { fresh: number; repeated: number }): CallFailure | undefined {
      if (isRecord(pagination) && typeof pagination.total_count === 'number') {
        announced = Math.max(announced, pagination.total_count)
      }
      rows += page.fresh + page.repeated
      fresh += page.fresh
      again = page.fresh > 0 ? 0 : again + page.repeated
      needless = announced > 0 && rows >= announced && page.fresh === 0 ? needless + 1 : 0
      if (again > fresh && rows > announced) {
        return callFailed('cursor_loop', `${howMany(fresh, 'row')} came again, under new cursors`)
      }
      if (needless < MAX_NEEDLESS_PAGES) return undefined
      return callFailed(
        'endless_feed',
        `${needless} more pages after the ${howMany(announced, 'row')} that it counts`,
      )
    },
  }
}

/**
 * What the first answer says of the feed without its rows. An agent that could not finish knows less than it says: that there
 * is no overlay counts only in an answer that lacks nothing, because the prices of the account may be what is missing.
 */
function saidOfAll(payload: Payload, { overlay, conditional }: WalkOptions): WalkOutcome | undefined {
  const lacksRows = missingRows(payload)
  if (lacksRows) return lacksRows
  const [lack] = entriesOf(payload)
  if (overlay && payload.cache_scope === 'public') {
    return (
      failedBy(lack, 'it names no prices for the account, and could not tell everything') ?? {
        kind: 'public',
      }
    )
  }
  if (!conditional || payload.unchanged !== true) return undefined
  return { kind: 'unchanged', isWhole: lack === undefined, ...tokensOf(payload) }
}

/** One pass; `restart` when the version moved under it. `until`: when time is up, ms. */
async function passOnce(
  options: WalkOptions,
  first: Extract<AgentOutcome, { kind: 'answer' }>,
  until: number,
): Promise<WalkOutcome | { kind: 'restart' }> {
  const { page, now, walkMs, maxRows, gathers } = options
  const collector: Collector = createCollector()
  const tokens = tokensOf(first.payload)
  let known = tokens // with what later pages told that the first one did not
  const guard = createLoopGuard()
  const out = new Set<Part>()
  let answer = first
  for (let pages = 1; ; pages++) {
    const failure = missingRows(answer.payload) ?? shapeFailure(answer.payload)
    if (failure) return failure
    const told = tokensOf(answer.payload)
    if (moved(known, told)) return { kind: 'restart' }
    known = { ...told, ...known }
    for (const part of partsOut(answer.payload)) out.add(part)
    const next = paginationOf(answer.payload)
    if (next.kind === 'failed') return next
    if (next.kind === 'more') {
      if (!guard.goesOn(next.cursor)) {
        return callFailed('cursor_loop', `a cursor came twice, after ${howMany(pages, 'page')}`)
      }
      if (pages >= MAX_PAGES) return callFailed('endless_feed', `more than ${MAX_PAGES} pages`)
      if (now() >= until) return callFailed('timeout', `the walk took longer than ${walkMs} ms`)
    }
    // The next page is fetched while the rows of this one are stored.
    const coming = next.kind === 'more' ? page(next.cursor) : undefined
    const taken = await collector.take(answer.rows)
    giveBackMoved(answer.rows.bytes) // the answers of a walk are nobody else's
    if (collector.rows() > maxRows) return callFailed('endless_feed', `more than ${maxRows} rows`)
    if (collector.bytes() > MAX_BYTES) return callFailed('too_large', `more than ${MAX_BYTES} bytes of rows`)
    if (!gathers(collector.rows(), collector.bytes())) return OVER_MEMORY
    if (!coming) return { kind: 'complete', out: [...out], ...collector.finish(), ...tokens }
    const looping = guard.take(answer.payload, taken)
    const outcome = await coming
    if (looping) return looping
    if (outcome.kind === 'error') return callFailed('agent_error', `page ${pages + 1}: ${outcome.error.code}`)
    if (outcome.kind === 'failed') return outcome
    answer = outcome
  }
}

/** All rows of the feed under one version, or why there are none. Begins again when the feed moves meanwhile. */
export async function walkUpstream(options: WalkOptions): Promise<WalkOutcome> {
  const until = options.now() + options.walkMs
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts++) {
    const first = await options.page(undefined)
    if (first.kind !== 'answer') return first
    const said = saidOfAll(first.payload, options)
    if (said) return said
    const outcome = await passOnce(options, first, until)
    if (outcome.kind !== 'restart') return outcome
  }
  return callFailed('unstable_feed', `the version moved during each of ${MAX_RESTARTS + 1} walks`)
}
