/** What is known of one upstream's health: the words of the start table, `incomplete[]`, metrics and explain. */
import type { Outages, SliceMode } from '../rows/slice.js'

export type Protocol = 'mcp' | 'a2a'

/** Why an upstream's last refresh failed; the same words in logs, metrics, explain and docs/upstreams.md. */
export type UpstreamFailure =
  | 'refused' // our egress policy forbids the address
  | 'unresolvable'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'unauthorized' // 401 or 403: our credential is missing or wrong
  | 'rate_limited'
  | 'server_error'
  | 'not_an_agent' // nothing at the url speaks MCP or A2A
  | 'protocol_error' // it answers, but in a shape that no dialect reads
  | 'agent_error' // an AdCP error answer
  | 'account_needed' // it answers nobody without an account that it knows
  | 'not_signals' // it refuses, and says itself that it offers something else
  | 'incomplete_feed' // it reports itself that its feed is not complete
  | 'cursor_loop'
  | 'endless_feed'
  | 'over_memory' // the memory for rows or answers is full, and this upstream uses most of it
  | 'unstable_feed' // its version kept changing during the walk
  | 'shrunken_feed' // most of its rows are gone: believed when a second answer agrees
  | 'not_enumerable' // brief-only, and no definition or seed question finds its signals
  | 'backing_off' // not asked: it failed moments ago and its next probe is due soon
  | 'unrepeatable' // it may have received the call before, and would not recognise the repetition
  | 'aborted' // our caller gave up
  | 'unknown_upstream' // no upstream of that id in the roster

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

/** What was found out, what follows from it, and who can change it. */
export const TOKEN_LIE =
  'its rows changed under an unchanged wholesale_feed_version: its tokens are not believed for a week, and it is read in full at each refresh (whoever runs it should move the token with its rows)'

const ACCOUNT_PRICES = {
  withheld:
    'it answers cache_scope account without being asked for one: its prices are shown to nobody (account_prices: public shows them to all callers)',
  public:
    'it answers cache_scope account without being asked for one: its prices are shown to all callers (account_prices: public)',
} as const

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
