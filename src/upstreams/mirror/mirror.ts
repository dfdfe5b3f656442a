/**
 * Keeps one upstream's slice for one credential scope. A slice is replaced only by a complete walk or enumeration;
 * `unchanged` moves the freshness and nothing else (specification, "Wholesale conditional-fetch rules").
 */
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef } from '../../adcp/reference.js'
import {
  type AgentError,
  type AgentOutcome,
  type Arguments,
  type CallFailure,
  callFailed,
} from '../agent/agent.js'
import {
  type Dialect,
  fitting,
  isCredentialError,
  isTransient,
  listingFields,
  takes,
} from '../agent/dialect/dialect.js'
import { createDoubt, SECOND_LOOK_MS } from '../agent/doubt.js'
import type { Collected } from '../rows/collect.js'
import { type Outages, type Part, type Slice, type SliceMode, sameDigests } from '../rows/slice.js'
import { carryParts } from '../walk/carry.js'
import { enumerate } from '../walk/enumerate.js'
import type { Share } from '../walk/governor.js'
import { doShare, shareRows } from '../walk/share.js'
import { createSpotCheck, isDistrusted } from '../walk/spot-check.js'
import { isSameVersion, type Tokens, type WalkOutcome, walkUpstream } from '../walk/walk.js'
import type { QuestionsAsked } from './asked.js'

/** Whatever the token and the pages in between say (docs/decisions.md#a-token-is-checked). */
const FULL_WALK_MS = 24 * 60 * 60 * 1_000

/** "pagination.max_results: maximum 100" (specification, Limits): some agents clamp more, some refuse it. */
const MAX_PAGE_SIZE = 100

/** A slice and what its upstream's keeper needs to know beside it. */
export type HeldSlice = {
  slice: Slice
  /** Provider domains named in its rows. */
  domains: readonly string[]
  /** Last time the upstream said, or showed, that the slice is current; ms since the epoch. */
  confirmedAt: number
  cacheScope?: string
}

/** What an agent says to a wholesale request, when its tool list has said it before. */
const NO_FEED = {
  kind: 'error' as const,
  error: { code: 'UNSUPPORTED_FEATURE', message: 'its tool get_signals takes no discovery_mode' },
}

export type MirrorOutcome =
  | { kind: 'unchanged'; held: HeldSlice }
  | { kind: 'replaced'; held: HeldSlice }
  /** The account has no overlay: its rate card is the public one. Only where `account` is sent. */
  | { kind: 'public' }
  /** `contradicted`: some page said otherwise than its token, which only a reading of all rows can settle. */
  | (CallFailure & { contradicted?: boolean })

export type MirrorOptions = {
  upstream: string
  agentUrl: string
  scope: string
  /** Sent with every read of this scope: its account, or nothing. */
  account?: Arguments
  pageSize: number
  refreshMs: number
  /** For one walk, ms. */
  walkMs: number
  /** What the upstream did not confirm for so long is not carried any further, ms. */
  dropAfterMs: number
  seeds: readonly string[]
  /** Questions of buyers, asked after the seeds. */
  asked?: QuestionsAsked
  /** What the upstream offers to everybody, for an account: rows that are equal are held once. */
  alike?(): Slice | undefined
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  /** What providers call these signals. */
  namesFor(agentUrl: string): readonly string[] | Promise<readonly string[]>
  /** One safe-to-repeat call, in the dialect given or raw. Retries and budgets are behind it. */
  ask(task: string, args: Arguments, dialect: Dialect | undefined): Promise<AgentOutcome>
  sleep(ms: number): Promise<void>
  now(): number
  /** From 0 to 1: which pages are looked at. */
  random(): number
  /** What its walks may take of all that upstreams take together. */
  share?: Pick<Share, 'gathers' | 'maxRows'>
}

function conditions(held: HeldSlice | undefined, now: number): Arguments {
  const { feedVersion, pricingVersion, walkedAt } = held?.slice ?? {}
  if (!feedVersion || walkedAt === undefined || now - walkedAt >= FULL_WALK_MS) return {}
  if (held && isDistrusted(held.slice, now)) return {}
  return {
    if_wholesale_feed_version: feedVersion,
    ...(pricingVersion && { if_pricing_version: pricingVersion }),
  }
}

function errorFailure(error: AgentError): CallFailure {
  const message = `get_signals: ${error.code}: ${error.message}`
  if (isCredentialError(error)) return callFailed('unauthorized', message)
  const reason = error.code === 'RATE_LIMITED' ? 'rate_limited' : 'agent_error'
  return callFailed(reason, message, error.retryAfterMs)
}

/** What a walk or an enumeration brought. */
type Found = Collected & Tokens & { out: readonly Part[]; limitedAt?: number }

export function createMirror(options: MirrorOptions) {
  const { upstream, agentUrl, scope, account, seeds, asked, referencesFor, namesFor, ask, sleep, now } =
    options
  const { walkMs, dropAfterMs, refreshMs, alike, share } = options
  const doubt = createDoubt({ laterMs: Math.min(SECOND_LOOK_MS, refreshMs), now })
  const pageSize = Math.min(options.pageSize, MAX_PAGE_SIZE)
  const spots = createSpotCheck({ now, random: options.random })
  let takesFields = true // until it turns out that the agent refuses the question
  let own: { digests: Slice['digests']; dialect: Dialect } | undefined // what this process read, and how it asked

  /** The parts that are out now, each with when it was last given; 0 where that is too long ago to stand. */
  function outagesOf(held: HeldSlice | undefined, out: readonly Part[]): Outages | undefined {
    if (out.length === 0) return undefined
    const given = out.map((part) => held?.slice.outages?.[part] ?? held?.confirmedAt ?? 0)
    return Object.fromEntries(
      out.map((part, at) => [part, now() - (given[at] ?? 0) <= dropAfterMs ? (given[at] ?? 0) : 0]),
    )
  }

  /**
   * Equal rows are the same slice, walked again: its tokens and counts may be new, its content is not. With a part that
   * is out there are no tokens: they would tell that nothing changed when the part is back.
   */
  async function settle(
    held: HeldSlice | undefined,
    mode: SliceMode,
    whole: Found,
    dialect: Dialect,
  ): Promise<MirrorOutcome> {
    const doubted = doubt.about(held?.slice.rows.count ?? 0, whole.rows.count)
    if (doubted) return doubted
    const outages = outagesOf(held, whole.out)
    const carried = whole.out.filter((part) => outages?.[part])
    const found = held && carried.length > 0 ? await carryParts(whole, held.slice, carried) : whole
    const { digests, dropped, refused, domains, feedVersion, pricingVersion, cacheScope } = found
    const { limitedAt } = whole
    const walkedAt = now()
    const same = held?.slice.mode === mode && sameDigests(held.slice.digests, digests)
    // What an earlier process or another question brought may differ for our own reasons.
    const wasAskedAlike =
      own !== undefined && own.digests === held?.slice.digests && isDeepStrictEqual(own.dialect, dialect)
    const isLie = wasAskedAlike && !same && !outages && isSameVersion(held.slice, found)
    const caughtAt = isLie ? walkedAt : held?.slice.caughtAt
    own = { digests: same ? held.slice.digests : digests, dialect }
    const tokens = { ...(feedVersion && { feedVersion }), ...(pricingVersion && { pricingVersion }) }
    const about = {
      ...{ upstream, agentUrl, scope, mode, dropped, refused, walkedAt },
      ...(limitedAt !== undefined && { limitedAt }),
      ...(caughtAt !== undefined && { caughtAt }),
      ...(outages ? { outages } : tokens),
    }
    const state = { domains, confirmedAt: walkedAt, ...(cacheScope && { cacheScope }) }
    if (!same) {
      const base = alike?.() ?? held?.slice
      const { rows } = base ? await shareRows(found, base) : found
      return { kind: 'replaced', held: { slice: { ...about, rows, digests }, ...state } }
    }
    // The old bytes stay, so that whoever holds them holds what is current.
    const { rows: oldRows, digests: oldDigests } = held.slice
    const unchanged = { slice: { ...about, rows: oldRows, digests: oldDigests }, ...state }
    return { kind: 'unchanged', held: await sharing(unchanged) }
  }

  /** An account may be read before everybody is: what it holds is shared as soon as there is something to share it with. */
  async function sharing(held: HeldSlice): Promise<HeldSlice> {
    const base = alike?.()
    if (!base || doShare(held.slice.rows, base.rows)) return held
    return { ...held, slice: await shareRows(held.slice, base) }
  }

  async function page(args: Arguments, dialect: Dialect): Promise<AgentOutcome> {
    const asksFields = dialect.release === 'current' && takesFields && takes(dialect, 'get_signals', 'fields')
    const fields = asksFields ? { fields: listingFields(dialect) } : {}
    const outcome = await ask('get_signals', { ...args, ...fields }, undefined)
    const isRefused =
      outcome.kind === 'error' && !isTransient(outcome.error) && !isCredentialError(outcome.error)
    if (!asksFields || !isRefused) return outcome
    // Its list of fields may be a shorter one: without the question, the answer tells.
    const plain = await ask('get_signals', args, undefined)
    if (plain.kind === 'answer') {
      takesFields = false
      own = undefined
    }
    return plain
  }

  /** One page after another by its cursor; the first one under conditions, where there are any. */
  function pages(dialect: Dialect, tokens: Arguments = {}) {
    const common = {
      discovery_mode: 'wholesale',
      ...(dialect.pin && { adcp_version: dialect.pin }),
      ...(dialect.account && { account: dialect.account }),
      ...(account && { account }),
    }
    return (cursor: string | undefined): Promise<AgentOutcome> => {
      const pagination = { max_results: pageSize, ...(cursor !== undefined && { cursor }) }
      const args = { ...common, pagination, ...(cursor === undefined && tokens) }
      return page(fitting(dialect, 'get_signals', args), dialect)
    }
  }

  function walk(tokens: Arguments, dialect: Dialect): Promise<WalkOutcome> {
    const next = pages(dialect, tokens)
    return walkUpstream({
      conditional: Object.keys(tokens).length > 0,
      overlay: account !== undefined,
      ...{ walkMs, now },
      ...(share && { gathers: share.gathers, maxRows: share.maxRows() }),
      page: async (cursor) => {
        const outcome = await next(cursor)
        spots.walked(cursor, outcome)
        return outcome
      },
    })
  }

  /** Walks where the token says that something changed, or where some page says so all the same. */
  async function walkIfMoved(
    held: HeldSlice | undefined,
    dialect: Dialect,
    whole: boolean,
  ): Promise<{ outcome: WalkOutcome; contradicted: boolean }> {
    const tokens = held?.slice.mode === 'wholesale' && !whole ? conditions(held, now()) : {}
    const outcome = await walk(tokens, dialect)
    const isLookedAt = outcome.kind === 'unchanged' && held !== undefined && spots.isDue()
    const contradicted = isLookedAt && (await spots.finds(held.slice, pages(dialect)))
    if (!contradicted) return { outcome, contradicted }
    const walked = await walk({}, dialect)
    const isSame = walked.kind === 'complete' && sameDigests(walked.digests, held.slice.digests)
    if (isSame) spots.wasWrong()
    return { outcome: walked, contradicted }
  }

  async function question(held: HeldSlice | undefined, dialect: Dialect): Promise<MirrorOutcome> {
    const questions = asked?.questions() ?? []
    const outcome = await enumerate({
      dialect,
      refs: await referencesFor(agentUrl),
      names: await namesFor(agentUrl),
      ...{ seeds, asked: questions },
      ...{ pageSize, sleep, walkMs, now },
      ...(share && { gathers: share.gathers }),
      ask: (task, args) => ask(task, { ...args, ...(account && { account }) }, dialect),
    })
    if (outcome.kind === 'failed') return outcome
    asked?.learn(questions, outcome.barren)
    if (outcome.rows.count === 0 && !held) {
      return callFailed('not_enumerable', 'none of the questions found a signal')
    }
    return settle(held, 'enumerated', outcome, dialect)
  }

  /** What a walk has come to, or the questions that stand in its place. */
  async function concluded(
    outcome: WalkOutcome,
    held: HeldSlice | undefined,
    dialect: Dialect,
  ): Promise<MirrorOutcome> {
    if (outcome.kind === 'complete') return settle(held, 'wholesale', outcome, dialect)
    if (outcome.kind === 'failed') return outcome
    // Who restarts knows its agreements last: rows of an account do not give way to the rate card at the first word.
    if (outcome.kind === 'public') return doubt.about(held?.slice.rows.count ?? 0, 0) ?? outcome
    if (outcome.kind === 'unchanged') doubt.clear()
    if (outcome.kind === 'unchanged') {
      if (!held) return callFailed('protocol_error', '"unchanged" where no token was sent')
      return { kind: 'unchanged', held: await sharing({ ...held, confirmedAt: now() }) }
    }
    // An agent that has a wholesale feed and refuses it now is in trouble; one that has none is asked in brief.
    const { error } = outcome
    const canBeAsked = takes(dialect, 'get_signals', 'discovery_mode')
    const hasFeed = canBeAsked && (dialect.declaresWholesale || held?.slice.mode === 'wholesale')
    if (hasFeed || isCredentialError(error) || error.code === 'RATE_LIMITED') return errorFailure(error)
    // A handler that breaks on every wholesale request says that it is unavailable: only a question tells the two apart.
    const asked = await question(held, dialect)
    if (asked.kind !== 'failed') return asked
    if (isTransient(error)) return errorFailure(error)
    if (asked.reason !== 'not_enumerable') return asked
    // What it says of its feed is often what is really wrong: it wants an account, or it is no signals agent at all.
    return {
      ...asked,
      message: `${asked.message}; asked for its feed, it said ${error.code}: ${error.message}`,
    }
  }

  /**
   * Brings the scope up to date once. `held` is what the caller has; it is never changed. `whole`: whatever its token says.
   */
  async function refresh(
    held: HeldSlice | undefined,
    dialect: Dialect,
    whole = false,
  ): Promise<MirrorOutcome> {
    if (!takes(dialect, 'get_signals', 'discovery_mode')) return concluded(NO_FEED, held, dialect)
    const { outcome, contradicted } = await walkIfMoved(held, dialect, whole)
    const found = await concluded(outcome, held, dialect)
    return found.kind === 'failed' && contradicted ? { ...found, contradicted } : found
  }

  return { refresh }
}

export type Mirror = ReturnType<typeof createMirror>
