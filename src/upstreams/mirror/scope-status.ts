/**
 * How a scope is doing, for people and for answers: its state, why it is not better, what was read, and notes for operators.
 * The same words stand in the start table, in `incomplete[]`, metrics and explain.
 */
import { shownUrl } from '../../adcp/redaction.js'
import type { Protocol, UpstreamFailure } from '../agent/agent.js'
import type { Outages, Quirk, SliceMode } from '../rows/slice.js'
import { isDistrusted } from '../walk/tokens.js'
import type { HeldSlice } from './mirror.js'
import { isRateCard, PUBLIC, type ScopeSetting } from './scope-setting.js'

/** What was found out, what follows from it, and who can change it. */
export const TOKEN_LIE =
  'its rows changed under an unchanged wholesale_feed_version: its tokens are not believed for a week, and it is read in full at each refresh (whoever runs it should move the token with its rows)'

const ACCOUNT_PRICES = {
  withheld:
    'it answers cache_scope account without being asked for one: its prices are shown to nobody (account_prices: public shows them to all callers)',
  public:
    'it answers cache_scope account without being asked for one: its prices are shown to all callers (account_prices: public)',
} as const

type UpstreamState =
  | 'starting' // no answer yet
  | 'fresh'
  | 'stale' // the last refresh failed or is overdue; the last good slice is still used
  | 'absent' // no good slice, or the slice passed its drop cap

export type UpstreamStatus = {
  id: string
  /** Where it is called, without credentials in the url's query. */
  url: string
  /** Canonical: its identity, whatever its id and its url are. */
  agentUrl: string
  name: string
  protocol?: Protocol
  mode?: SliceMode
  state: UpstreamState
  /** Rows of the slice in use. */
  listings: number
  /** The agent gives at most this many rows per question, so there may be more. */
  limitedAt?: number
  dropped: Readonly<Record<string, number>>
  /** How it differs from the current protocol and was read all the same. */
  quirks?: readonly Quirk[]
  /** It states prices for accounts only, although no account was named. */
  accountPrices?: 'public' | 'withheld'
  /** When its rows were found to have changed under an unchanged token, ms: its tokens are not believed now. */
  caughtAt?: number
  /** Parts that were missing in the last walk. */
  outages?: Outages
  problem?: { reason: UpstreamFailure; message: string }
  /** Last complete walk and last confirmation that it is current, ms since the epoch. */
  walkedAt?: number
  confirmedAt?: number
  nextAttemptAt?: number
  /** Whether somebody waits for a reading that has not begun, because what was read before no longer applies. */
  awaited?: boolean
}

/** How a scope is doing, in one word: the states of an upstream, and `empty` for a feed that was read and has no row. */
export type ScopeState = UpstreamState | 'empty'

export type Transition = {
  upstream: string
  scope: string
  from: ScopeState
  to: ScopeState
  rows: number
  reason?: UpstreamFailure
  /** What was tried, and what came back. */
  message?: string
}

export type ScopeStatus = UpstreamStatus & {
  scope: string
  /** The upstream says that this account is priced off what everybody is offered. */
  rateCard: boolean
}

const QUIRKS: Readonly<Record<Quirk, string>> = {
  capital_domain: "a provider's domain in capitals is read in small letters",
  signal_id: 'signal_id is read as signal_ref',
  signals_agent_segment_id: 'signals_agent_segment_id is read as signal_agent_segment_id',
  signal_type:
    'a signal_type that the protocol does not know, or none, is read as marketplace where the row names its provider, else as owned',
  pricing: 'pricing is read as pricing_options',
  deployments: 'a deployment without a type gets one, and its bare segment id is read as an activation_key',
  wrapped: 'an answer that stands whole under one key, result or response, is read without that key',
}

/**
 * A sentence for each quirk: who runs the agent learns what to change. A slice may have been read by a newer release on the same
 * storage, which knows other quirks.
 */
export const quirksOf = ({ quirks = [] }: { quirks?: readonly string[] }) =>
  quirks.map((quirk) =>
    Object.hasOwn(QUIRKS, quirk)
      ? QUIRKS[quirk as Quirk]
      : `a newer release that read it found ${quirk}, of which this one knows only the name`,
  )

/** Facts about an upstream besides its state that an operator should know, each with who or what can change it. */
export function notesOf({
  accountPrices,
  caughtAt,
}: Pick<UpstreamStatus, 'accountPrices' | 'caughtAt'>): string[] {
  return [
    ...(accountPrices ? [ACCOUNT_PRICES[accountPrices]] : []),
    ...(caughtAt === undefined ? [] : [TOKEN_LIE]),
  ]
}

/**
 * How many rows were read, and whether these are probably all: a feed is complete, while questions find only what they
 * ask for.
 */
export function rowsRead({ listings, mode, limitedAt }: UpstreamStatus): string {
  if (mode !== 'enumerated') return String(listings)
  if (limitedAt === undefined) return `at least ${listings}`
  return limitedAt === listings ? `limited at ${limitedAt}` : `at least ${listings}, limited at ${limitedAt}`
}

/** What is not in the setting and not in what is held. */
type Doing = Pick<UpstreamStatus, 'state'> & {
  problem: UpstreamStatus['problem'] | undefined
  nextAttemptAt: number | undefined
  awaited: boolean
}

/** All that a status is made of. A list: objects are compared by their names, which takes twenty times as long. */
type Facts = readonly [
  setting: ScopeSetting,
  place: string,
  held: HeldSlice | undefined,
  caughtAt: number | undefined,
  protocol: UpstreamStatus['protocol'] | undefined,
  accountPrices: UpstreamStatus['accountPrices'] | undefined,
  state: UpstreamState,
  problem: Doing['problem'],
  nextAttemptAt: number | undefined,
  awaited: boolean,
]

function statusOf(facts: Facts): ScopeStatus {
  const [setting, place, held, caughtAt, protocol, accountPrices, state, problem, nextAttemptAt, awaited] =
    facts
  const { scope, entry } = setting
  return {
    id: entry.id,
    url: shownUrl(place),
    agentUrl: entry.agentUrl,
    name: entry.name,
    scope: scope.name,
    rateCard: isRateCard(held, setting),
    listings: held?.slice.rows.count ?? 0,
    dropped: held?.slice.dropped ?? {},
    ...(protocol && { protocol }),
    ...(accountPrices && { accountPrices }),
    ...(held?.slice.quirks && { quirks: held.slice.quirks }),
    ...(held?.slice.outages && { outages: held.slice.outages }),
    ...(held?.slice.limitedAt !== undefined && { limitedAt: held.slice.limitedAt }),
    ...(caughtAt !== undefined && { caughtAt }),
    ...(held && {
      mode: held.slice.mode,
      walkedAt: held.slice.walkedAt,
      confirmedAt: held.confirmedAt,
    }),
    state,
    ...(problem && { problem }),
    ...(nextAttemptAt !== undefined && { nextAttemptAt }),
    ...(awaited && { awaited }),
  }
}

const isSame = (one: Facts, other: Facts) => one.every((fact, at) => fact === other[at])

/**
 * The status of one scope: the same object as long as what it says is the same. Answers look at those of all upstreams, and
 * making twenty of them takes as long as answering.
 */
export function createStatus() {
  let last: { status: ScopeStatus; facts: Facts } | undefined

  /** `held`: what is served of the scope now, if anything. */
  return (setting: ScopeSetting, held: HeldSlice | undefined, doing: Doing, now: number): ScopeStatus => {
    const { scope, contact } = setting
    const { state, problem, nextAttemptAt, awaited } = doing
    const caughtAt = held && isDistrusted(held.slice, now) ? held.slice.caughtAt : undefined
    const isOpen = scope.name === PUBLIC
    const accountPrices = isOpen ? contact.prices.told(held?.cacheScope === 'account') : undefined
    const facts: Facts = [
      setting,
      contact.place(),
      held,
      caughtAt,
      contact.protocol(),
      accountPrices,
      state,
      problem,
      nextAttemptAt,
      awaited,
    ]
    if (!last || !isSame(last.facts, facts)) last = { status: statusOf(facts), facts }
    return last.status
  }
}
