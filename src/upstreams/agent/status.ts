/** What is known of one upstream's health: the words of the start table, `incomplete[]`, metrics and explain. */
import type { Outages, SliceMode } from '../rows/slice.js'

export type Protocol = 'mcp' | 'a2a'

/** Why an upstream's last refresh failed; the same words in logs, metrics, explain and docs/upstreams.md. */
export type UpstreamFailure =
  | 'refused' // by our egress guard
  | 'unresolvable'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'unauthorized' // 401 or 403: our credential is missing or wrong
  | 'rate_limited'
  | 'server_error'
  | 'not_an_agent' // nothing at the url speaks MCP or A2A
  | 'protocol_error' // it answers, but not in a shape that any dialect reads
  | 'agent_error' // an AdCP error answer
  | 'incomplete_feed' // it says itself that it could not enumerate everything
  | 'cursor_loop'
  | 'endless_feed'
  | 'over_memory' // the memory for all upstreams' rows, or for answers being read, is full, and it takes most
  | 'unstable_feed' // its version kept moving while we walked
  | 'shrunken_feed' // most of its rows are gone: believed when a second answer says the same
  | 'not_enumerable' // brief-only, and no definition or seed question finds its signals
  | 'backing_off' // not asked: it failed moments ago and its next probe is due soon
  | 'unrepeatable' // it may have got the call before, and would not recognise it
  | 'aborted' // our caller gave up
  | 'unknown_upstream' // no upstream of that id in the roster

type UpstreamState =
  | 'starting' // no answer yet
  | 'fresh'
  | 'stale' // last refresh failed or is overdue; its last good slice is carried forward
  | 'absent' // no good slice, or the slice passed its drop cap

export type UpstreamStatus = {
  id: string
  /** Where it is called, without the credentials that may stand in it. */
  url: string
  /** Canonical: who it is, whatever its id and its place are called. */
  agentUrl: string
  name: string
  protocol?: Protocol
  mode?: SliceMode
  state: UpstreamState
  /** Rows of the slice in use. */
  listings: number
  /** The agent gives no more rows than this to one question, and there may be more. */
  limitedAt?: number
  dropped: Readonly<Record<string, number>>
  /** It tells prices for accounts only, though none was named. */
  accountPrices?: 'public' | 'withheld'
  /** When its rows were found to have changed under an unchanged token, ms: its tokens are not believed now. */
  caughtAt?: number
  /** Parts that it could not give at the last walk. */
  outages?: Outages
  problem?: { reason: UpstreamFailure; message: string }
  /** Last complete walk and last confirmation that it is current, ms since the epoch. */
  walkedAt?: number
  confirmedAt?: number
  nextAttemptAt?: number
  /** Somebody waits for a reading that has not begun: what it was read with is not so any more. */
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

/** What an operator should know of an upstream beside its state, each with who or what can change it. */
export function notesOf({
  accountPrices,
  caughtAt,
}: Pick<UpstreamStatus, 'accountPrices' | 'caughtAt'>): string[] {
  return [
    ...(accountPrices ? [ACCOUNT_PRICES[accountPrices]] : []),
    ...(caughtAt === undefined ? [] : [TOKEN_LIE]),
  ]
}

/** How many rows were read, and whether these are probably all: a feed is whole, questions find what they ask for. */
export function rowsRead({ listings, mode, limitedAt }: UpstreamStatus): string {
  if (mode !== 'enumerated') return String(listings)
  if (limitedAt === undefined) return `at least ${listings}`
  return limitedAt === listings ? `limited at ${limitedAt}` : `at least ${listings}, limited at ${limitedAt}`
}
