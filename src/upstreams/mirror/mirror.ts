/**
 * Keeps one upstream's slice for one credential scope. Only a complete walk or enumeration replaces a slice;
 * `unchanged` updates its freshness and nothing else (specification, "Wholesale conditional-fetch rules").
 */
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef } from '../../adcp/signal.js'
import {
  type AgentOutcome,
  type Arguments,
  type CallFailure,
  callFailed,
  createDoubt,
} from '../agent/agent.js'
import {
  asOfAnother,
  type Dialect,
  fitting,
  isAboutRequest,
  isCredentialError,
  isTransient,
  listingFields,
  refusalOf,
  takes,
} from '../agent/dialect.js'
import { type Collected, carryParts, doShare, shareRows } from '../rows/new-slice.js'
import { type Outages, type Part, type Slice, type SliceMode, sameDigests } from '../rows/slice.js'
import { enumerate, type QuestionsAsked } from '../walk/enumerate.js'
import type { Share } from '../walk/governor.js'
import { createSpotCheck } from '../walk/spot-check.js'
import { isDistrusted, isSameVersion, moved, type Tokens } from '../walk/tokens.js'
import { type WalkOutcome, walkUpstream } from '../walk/walk.js'

/** Whatever the token and the pages in between say (docs/decisions.md#a-token-is-checked). */
const FULL_WALK_MS = 24 * 60 * 60 * 1_000

/** "pagination.max_results: maximum 100" (specification, Limits): some agents clamp more, some refuse it. */
const MAX_PAGE_SIZE = 100

/** A slice with what its keeper has to know about it. */
export type HeldSlice = {
  slice: Slice
  /** Provider domains named in its rows. */
  domains: readonly string[]
  /** When the upstream last stated or proved that the slice is current; ms since the epoch. */
  confirmedAt: number
  cacheScope?: string
  /** Prices that it had are another reader's and were taken out: none of them stands in for what is missing. */
  isUnpriced?: true
}

/** Whether what was confirmed at `at` is too old. */
export const isOver = (at: number, now: number, dropAfterMs: number) => now - at >= dropAfterMs

/** The answer to a wholesale request of an agent whose tool list already shows that it has no feed. */
const NO_FEED = {
  kind: 'error' as const,
  error: {
    code: 'UNSUPPORTED_FEATURE',
    message: 'it cannot be asked for its whole feed: its tool get_signals takes no discovery_mode',
  },
}

export type MirrorOutcome =
  | { kind: 'unchanged'; held: HeldSlice }
  | { kind: 'replaced'; held: HeldSlice }
  /** The account has no rows of its own: its rate card is the public one. Only when `account` is sent. */
  | { kind: 'public' }
  /** `contradicted`: a page contradicts the unchanged token, so only a complete reading can tell. */
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
  /** After this time without a confirmation by the upstream, a part is no longer used, ms. */
  dropAfterMs: number
  seeds: readonly string[]
  /** Questions of buyers, asked after the seeds. */
  asked?: QuestionsAsked
  /** For an account: what the upstream offers to everybody, so that equal rows are held once. */
  alike?(): Slice | undefined
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  /** What providers call these signals. */
  namesFor(agentUrl: string): readonly string[] | Promise<readonly string[]>
  /** One call that is safe to repeat, in the given dialect or raw. It does retries and budgets itself. */
  ask(task: string, args: Arguments, dialect: Dialect | undefined): Promise<AgentOutcome>
  /** What may be shown of all that was read. */
  settled?<T extends Collected>(found: T): Promise<T>
  sleep(ms: number): Promise<void>
  now(): number
  /** From 0 to 1: chooses the pages to check. */
  random(): number
  /** What its walks may take of all that upstreams take together. */
  share: Pick<Share, 'gathers' | 'maxRows'>
}

/** What a walk or an enumeration brought. */
type Found = Collected & Tokens & { out: readonly Part[]; limitedAt?: number }

/** What makes a request conditional, where the token that is held proves something. */
function conditions(held: HeldSlice | undefined, now: number): Arguments {
  const { feedVersion, pricingVersion, walkedAt } = held?.slice ?? {}
  if (!feedVersion || walkedAt === undefined || now - walkedAt >= FULL_WALK_MS) return {}
  if (held && isDistrusted(held.slice, now)) return {}
  return {
    if_wholesale_feed_version: feedVersion,
    ...(pricingVersion && { if_pricing_version: pricingVersion }),
  }
}

/** Of one scope: reads it when it is told to. */
export function createMirror(options: MirrorOptions) {
  const { upstream, agentUrl, scope, account, seeds, asked, referencesFor, namesFor, ask, sleep, now } =
    options
  const { walkMs, dropAfterMs, refreshMs, alike, share } = options
  const doubt = createDoubt({ refreshMs, now })
  const pageSize = Math.min(options.pageSize, MAX_PAGE_SIZE)
  const spots = createSpotCheck({ now, random: options.random })
  let takesFields = true // until the agent refuses a request for fields
  let own: { digests: Slice['digests']; dialect: Dialect } | undefined // what this process read, and how it asked

  /** The parts that are missing now, each with when it was last given; 0 when that is too long ago to use. */
  function outagesOf(held: HeldSlice | undefined, out: readonly Part[]): Outages | undefined {
    if (out.length === 0) return undefined
    const { slice, confirmedAt = 0, isUnpriced } = held ?? {}
    const given = (part: Part) =>
      slice?.outages?.[part] ?? (isUnpriced && part === 'pricing' ? 0 : confirmedAt)
    return Object.fromEntries(
      out.map((part) => [part, isOver(given(part), now(), dropAfterMs) ? 0 : given(part)]),
    )
  }

  /**
   * Equal rows make the same slice: its tokens and counts may be new, its content is not. With a missing part the
   * tokens are dropped: they would report "unchanged" when the part comes back.
   */
  async function settle(
    held: HeldSlice | undefined,
    mode: SliceMode,
    brought: Found,
    dialect: Dialect,
  ): Promise<MirrorOutcome> {
    const doubted = doubt.about(held?.slice.rows.count ?? 0, brought.rows.count)
    if (doubted) return doubted
    const whole = (await options.settled?.(brought)) ?? brought
    const outages = outagesOf(held, whole.out)
    const carried = whole.out.filter((part) => outages?.[part])
    const found = held && carried.length > 0 ? await carryParts(whole, held.slice, carried) : whole
    const { digests, dropped, refused, quirks, domains, feedVersion, pricingVersion, cacheScope } = found
    const { pricedFor } = found
    const { limitedAt } = whole
    const walkedAt = now()
    const same = held?.slice.mode === mode && sameDigests(held.slice.digests, digests)
    // What an earlier process read, or another question, may differ for reasons of our own.
    const wasAskedAlike =
      own !== undefined && own.digests === held?.slice.digests && isDeepStrictEqual(own.dialect, dialect)
    const isLie = wasAskedAlike && !same && !outages && isSameVersion(held.slice, found)
    const caughtAt = isLie ? walkedAt : held?.slice.caughtAt
    own = { digests: same ? held.slice.digests : digests, dialect }
    const tokens = { ...(feedVersion && { feedVersion }), ...(pricingVersion && { pricingVersion }) }
    const about = {
      ...{ upstream, agentUrl, scope, mode, dropped, refused, walkedAt },
      ...(quirks.length > 0 && { quirks }),
      ...(limitedAt !== undefined && { limitedAt }),
      ...(caughtAt !== undefined && { caughtAt }),
      ...(pricedFor !== undefined && { pricedFor }),
      ...(outages ? { outages } : tokens),
    }
    const state = { domains, confirmedAt: walkedAt, ...(cacheScope && { cacheScope }) }
    if (same) {
      const { rows, digests } = held.slice // the old bytes: others hold them as well
      const unchanged = { slice: { ...about, rows, digests }, ...state }
      return { kind: 'unchanged', held: await sharing(unchanged) }
    }
    const base = alike?.() ?? held?.slice
    const { rows } = base ? await shareRows(found, base) : found
    return { kind: 'replaced', held: { slice: { ...about, rows, digests }, ...state } }
  }

  /** An account may be read before the public scope: its rows are shared once there is a public slice. */
  async function sharing(held: HeldSlice): Promise<HeldSlice> {
    const base = alike?.()
    if (!base || doShare(held.slice.rows, base.rows)) return held
    return { ...held, slice: await shareRows(held.slice, base) }
  }

  async function page(args: Arguments, dialect: Dialect): Promise<AgentOutcome> {
    const asksFields = dialect.release === 'current' && takesFields && takes(dialect, 'get_signals', 'fields')
    const fields = asksFields ? { fields: listingFields(dialect) } : {}
    const outcome = await ask('get_signals', { ...args, ...fields }, undefined)
    if (!asksFields || !isAboutRequest(outcome)) return outcome
    // Its default list of fields may be shorter: only its answer tells.
    const plain = await ask('get_signals', args, undefined)
    if (plain.kind === 'answer') {
      takesFields = false
      own = undefined
    }
    return plain
  }

  /** One page after another by cursor; the first one with conditions, if there are any. */
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
      ...{ gathers: share.gathers, maxRows: share.maxRows() },
      page: async (cursor) => {
        const outcome = await next(cursor)
        spots.walked(cursor, outcome)
        return outcome
      },
    })
  }

  /** Whether "unchanged" was said of another version than the one that is held or of a part alone, or a page contradicts it. */
  async function isDenied(
    held: HeldSlice,
    told: Extract<WalkOutcome, { kind: 'unchanged' }>,
    dialect: Dialect,
  ): Promise<boolean> {
    const { slice } = held
    if (!told.isWhole) return true
    if (moved(slice, told) || moved(held, told)) return true // a slice has the versions, and who holds it the scope
    return spots.isDue() && (await spots.finds(slice, pages(dialect)))
  }

  /** Walks when the token has changed, or when its answer or a page contradicts an unchanged token. */
  async function walkIfMoved(
    held: HeldSlice | undefined,
    dialect: Dialect,
    whole: boolean,
  ): Promise<{ outcome: WalkOutcome; contradicted: boolean }> {
    const tokens = held?.slice.mode === 'wholesale' && !whole ? conditions(held, now()) : {}
    const outcome = await walk(tokens, dialect)
    const contradicted =
      outcome.kind === 'unchanged' && held !== undefined && (await isDenied(held, outcome, dialect))
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
      gathers: share.gathers,
      ask: (task, args) => ask(task, { ...args, ...(account && { account }) }, dialect),
    })
    if (outcome.kind === 'failed') return outcome
    asked?.learn(questions, outcome.barren)
    if (outcome.rows.count === 0 && !held) {
      return callFailed('not_enumerable', 'no answer to its other questions had a signal in it')
    }
    return settle(held, 'enumerated', outcome, dialect)
  }

  /** The outcome of a walk, or of the questions asked in its place. */
  async function concluded(
    outcome: WalkOutcome,
    held: HeldSlice | undefined,
    dialect: Dialect,
  ): Promise<MirrorOutcome> {
    if (outcome.kind === 'complete') {
      const settled = await settle(held, 'wholesale', outcome, dialect)
      if (settled.kind !== 'failed') spots.holds()
      return settled
    }
    if (outcome.kind === 'failed') return outcome
    // An agent that restarts loads its agreements last: an account's rows are not replaced by the rate card at its
    // first answer.
    if (outcome.kind === 'public') return doubt.about(held?.slice.rows.count ?? 0, 0) ?? outcome
    if (outcome.kind === 'unchanged') {
      doubt.clear()
      if (!held) return callFailed('protocol_error', '"unchanged" where no token was sent')
      return { kind: 'unchanged', held: await sharing({ ...held, confirmedAt: now() }) }
    }
    // An agent with a known wholesale feed that refuses it now is in trouble; one without a feed is asked questions.
    const { error } = outcome
    const canBeAsked = takes(dialect, 'get_signals', 'discovery_mode')
    const hasFeed = canBeAsked && (dialect.declaresWholesale || held?.slice.mode === 'wholesale')
    if (hasFeed || isCredentialError(error) || error.code === 'RATE_LIMITED') return refusalOf(error)
    // Some agents answer every wholesale request with "unavailable" because it breaks them: only a question tells this
    // from real trouble.
    const asked = await question(held, dialect)
    if (asked.kind !== 'failed') return asked
    if (isTransient(error)) return refusalOf(error)
    if (asked.reason !== 'not_enumerable') return asked
    // What it said of its feed often names the real cause.
    const refusal = refusalOf(error)
    const reason = refusal.reason === 'agent_error' ? asked.reason : refusal.reason
    const tried = outcome === NO_FEED ? error.message : `asked for its whole feed, ${refusal.message}`
    return { ...asked, reason, message: `${tried}; ${asked.message}` }
  }

  /**
   * Updates the scope once. `held` is what the caller has, and is never changed. `whole`: reads everything, whatever
   * the token says.
   */
  async function refresh(
    held: HeldSlice | undefined,
    dialect: Dialect,
    whole = false,
  ): Promise<MirrorOutcome> {
    const hasMode = takes(dialect, 'get_signals', 'discovery_mode')
    const { outcome, contradicted } = hasMode
      ? await walkIfMoved(held, dialect, whole)
      : { outcome: NO_FEED, contradicted: false }
    const found = await concluded(outcome, held, dialect)
    if (found.kind !== 'failed') return found
    return { ...asOfAnother(found, dialect), ...(contradicted && { contradicted }) }
  }

  return { refresh }
}

export type Mirror = ReturnType<typeof createMirror>
