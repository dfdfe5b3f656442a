/**
 * Walks a wholesale feed from its first page to its last under one version, or says why it could not (specification,
 * "mid-pagination" and "Wholesale conditional-fetch rules"; docs/protocol.md#how-agents-differ, pages). Where the feed's
 * token says that nothing changed, some pages are looked at instead, because a token that matches proves little: one agent hashes
 * its first 500 rows only, others forget to move it (docs/decisions.md#a-token-is-checked).
 */
import { howMany } from '../../adcp/answer.js'
import { isRecord } from '../../adcp/json.js'
import { UNIT_MS } from '../../adcp/signal-requests.js'
import { giveBackMoved } from '../../process/memory.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import {
  type AgentError,
  type AgentOutcome,
  type CallFailure,
  callFailed,
  type Payload,
} from '../agent/agent.js'
import { type Collected, type Collector, createCollector } from '../rows/new-slice.js'
import type { ReadRows } from '../rows/read-rows.js'
import { digestNumbers, PARTS, type Part, type Slice } from '../rows/slice.js'

const MAX_PAGES = 20_000 // 100 rows a page: two million rows; beyond that an upstream is looping
const MAX_BYTES = 4 * 1024 ** 3
const MAX_RESTARTS = 3
const MAX_NEEDLESS_PAGES = 3 // empty pages in a row after all rows that the agent counts have come
const MAX_CURSOR = 4_096
const MAX_TOKEN = 512 // characters; it is kept, and sent with every poll
const CHECK_EVERY_MS = 20 * 60 * 1_000
const PAGES_A_CHECK = 2 // six an hour
const AFTER_A_FALSE_ALARM_MS = 24 * 60 * 60 * 1_000
const REMEMBERED_CURSORS = 64 // cursors of the last walk
const PORTION = 200_000 // digests between two portions: under a millisecond
const DISTRUSTED_MS = 7 * 24 * 60 * 60 * 1_000

/** What a walk ends with when `gathers` says so. */
export const OVER_MEMORY = callFailed(
  'over_memory',
  "its rows take more memory than anybody else's, and there is no more",
)

export type Tokens = { feedVersion?: string; pricingVersion?: string; cacheScope?: string }

export type WalkOutcome =
  | ({ kind: 'complete'; out: readonly Part[] } & Collected & Tokens)
  /** The conditional token matched, as the agent says: with the tokens that it says this under. */
  | ({ kind: 'unchanged' } & Tokens)
  /** An overlay was asked for and there is none: the rate card applies ("`cache_scope`", specification). */
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
  const unit = UNIT_MS[duration.unit as keyof typeof UNIT_MS] ?? Number.NaN
  const ms = Number(duration.interval) * unit
  return Number.isFinite(ms) && ms > 0 ? ms : undefined
}

/**
 * What an agent says it could not finish (specification, "IncompleteEntry"): rows that are missing make a walk useless,
 * a part that is missing from all rows (prices, coverage) is an outage of that part alone.
 */
function entriesOf({ incomplete }: Payload): Record<string, unknown>[] {
  return Array.isArray(incomplete) ? incomplete.filter(isRecord) : []
}

/** A page that lacks rows, as the reason why its walk failed. */
function missingRows(payload: Payload): CallFailure | undefined {
  const entry = entriesOf(payload).find(({ scope }) => scope === 'wholesale_feed' || scope === 'signals')
  if (!entry) return undefined
  return callFailed(
    'incomplete_feed',
    'the agent could not enumerate everything',
    waitOf(entry.estimated_wait),
  )
}

/** The parts that the rows of a page lack. */
export function partsOut(payload: Payload): Part[] {
  const scopes = entriesOf(payload).map(({ scope }) => scope)
  return PARTS.filter((part) => scopes.includes(part))
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TOKEN ? value : undefined
}

/** A token that is longer than may be kept is none. */
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

/**
 * Whether an answer is of another feed, by its tokens or by whom it is for. One without them says nothing about a change: agents that
 * do not declare versioning may leave them out.
 */
export function moved(known: Tokens, told: Tokens): boolean {
  const differs = (a?: string, b?: string) => a !== undefined && b !== undefined && a !== b
  return (
    differs(known.feedVersion, told.feedVersion) ||
    differs(known.pricingVersion, told.pricingVersion) ||
    differs(known.cacheScope, told.cacheScope)
  )
}

/** Both came with one token, which says of both that they are the same. */
export function isSameVersion(a: Tokens, b: Tokens): boolean {
  return (
    a.feedVersion !== undefined && a.feedVersion === b.feedVersion && a.pricingVersion === b.pricingVersion
  )
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
  const cursors = new Set<string>()
  let rows = 0
  let fresh = 0
  let again = 0 // known rows since the last new one
  let announced = 0 // the largest `total_count` that a page stated
  let needless = 0

  return {
    /** False for a cursor that came before. */
    goesOn(cursor: string): boolean {
      if (cursors.has(cursor)) return false
      cursors.add(cursor)
      return true
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
    const failure = shapeFailure(answer.payload) ?? missingRows(answer.payload)
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
    if (options.overlay && first.payload.cache_scope === 'public') return { kind: 'public' }
    if (first.payload.unchanged === true && options.conditional)
      return { kind: 'unchanged', ...tokensOf(first.payload) }
    const outcome = await passOnce(options, first, until)
    if (outcome.kind !== 'restart') return outcome
  }
  return callFailed('unstable_feed', `the version moved during each of ${MAX_RESTARTS + 1} walks`)
}

type SpotCheckOptions = { now(): number; random(): number }

type Page = (cursor: string | undefined) => Promise<AgentOutcome>

function totalOf({ pagination }: Payload): number | undefined {
  const total = isRecord(pagination) ? pagination.total_count : undefined
  return typeof total === 'number' ? total : undefined
}

/** Whether the slice has every row of a page, byte for byte. */
async function holdsAll({ digests }: Slice, page: ReadRows): Promise<boolean> {
  const missing = new Map<number, Set<number>>() // high words by low word: numbers, where a bigint a row would be garbage
  const asked = digestNumbers(page.digests)
  for (let at = 0; at < asked.length; at += 2) {
    const highs = missing.get(asked[at] as number) ?? new Set()
    missing.set(asked[at] as number, highs.add(asked[at + 1] as number))
  }
  const held = digestNumbers(digests)
  for (let at = 0; at < held.length && missing.size > 0; at += 2) {
    if (at % (PORTION * 2) === 0) await nextOwnPortion()
    const highs = missing.get(held[at] as number)
    if (highs?.delete(held[at + 1] as number) && highs.size === 0) missing.delete(held[at] as number)
  }
  return missing.size === 0
}

/** Whether an agent's tokens are not believed, because its rows changed under an unchanged token in the last seven days. */
export function isDistrusted({ caughtAt }: { readonly caughtAt?: number }, now: number): boolean {
  return caughtAt !== undefined && now - caughtAt < DISTRUSTED_MS
}

/** What a walk showed of a feed: a fair choice among all cursors that it was offered, and the count of rows. */
type Trail = { cursors: string[]; offered: number; total?: number }

const noTrail = (): Trail => ({ cursors: [], offered: 0 })

/** For one feed; it begins with the pages of the first walk whose rows are held. */
export function createSpotCheck({ now, random }: SpotCheckOptions) {
  let dueAt = 0 // the first `unchanged` of a process is looked at: what was saved may be old
  let latest = noTrail() // of the walk that began last, whatever becomes of it
  let held = noTrail()

  function remember(cursor: string): void {
    const { cursors } = latest
    latest.offered += 1
    if (cursors.length < REMEMBERED_CURSORS) cursors.push(cursor)
    else if (random() < REMEMBERED_CURSORS / latest.offered)
      cursors[Math.floor(random() * REMEMBERED_CURSORS)] = cursor
  }

  function oneOf(places: (string | undefined)[]): string | undefined {
    return places.splice(Math.floor(random() * places.length), 1)[0]
  }

  return {
    isDue: () => now() >= dueAt,
    /** Hears of a page of a walk. */
    walked(cursor: string | undefined, outcome: AgentOutcome): void {
      if (outcome.kind !== 'answer' || outcome.payload.unchanged === true) return
      if (cursor === undefined) latest = noTrail()
      else remember(cursor)
      const total = totalOf(outcome.payload)
      if (total !== undefined) latest.total = total
    },
    /** The rows of the last walk are held now. A walk that came to nothing, or is doubted, showed another feed. */
    holds(): void {
      held = latest
    },
    /** Whether a page contradicts what is held, or its token has changed since. */
    async finds(slice: Slice, page: Page): Promise<boolean> {
      dueAt = now() + CHECK_EVERY_MS
      const { total } = held
      let places: (string | undefined)[] = [undefined, ...held.cursors]
      for (let look = 0; look < PAGES_A_CHECK && places.length > 0; look++) {
        const cursor = oneOf(places)
        const outcome = await page(cursor)
        // A passing fault, or expired cursors: neither proves anything.
        if (outcome.kind !== 'answer' || !Array.isArray(outcome.payload.signals)) {
          if (cursor !== undefined) held.cursors = []
          places = places.filter((each) => each === undefined)
          continue
        }
        const { payload, rows } = outcome
        const counted = totalOf(payload)
        if (moved(slice, tokensOf(payload))) return true
        if (total !== undefined && counted !== undefined && counted !== total) return true
        if (!(await holdsAll(slice, rows))) return true
        const next = nextCursor(payload)
        // After a restart there are no cursors yet.
        const { cursors } = held
        if (next !== undefined && !cursors.includes(next) && cursors.length < REMEMBERED_CURSORS) {
          cursors.push(next)
          places.push(next)
        }
      }
      return false
    },
    /** A full read found what was held: this agent's pages and counts differ for reasons of their own. */
    wasWrong(): void {
      dueAt = now() + AFTER_A_FALSE_ALARM_MS
    },
  }
}
