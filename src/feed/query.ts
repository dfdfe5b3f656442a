/** What a caller may ask of the feed and what comes back: the contract between `feed` and `server`. */
import type { AdcpWarning, Refused } from '../adcp/error.js'
import type { SignalRef } from '../adcp/reference.js'
import type { Destination } from '../adcp/signal.js'
import type { Undecided } from '../authz/rules/verdict.js'
import type { Part } from '../upstreams/rows/slice.js'

export type CacheScope = 'public' | 'account'

/** Who reads the feed, and what of it that reader may see (docs/decisions.md#callers). */
export type Reader = {
  /** Binds cursors; never published. */
  caller: string
  /** `metadata`: no prices, no keys (anonymous callers). */
  visibility: 'full' | 'metadata'
  /** Destinations whose activation keys the reader may see. */
  grants: readonly Destination[]
  /** The account whose layer is asked for, once it is known to be the reader's. */
  account?: string
  /** In 3.0 every signal has a price, coverage and a provider's name: others are hidden from a reader of that release. */
  wholeOnly?: boolean
}

export type Filters = Readonly<Record<string, unknown>>

/** What shapes an answer, whether rows are listed or looked up. The values conform to the request schema. */
export type Selection = {
  filters?: Filters
  destinations?: readonly Destination[]
  countries?: readonly string[]
  fields?: readonly string[]
}

export type WholesaleQuery = Selection & {
  /** 1 to 100. */
  maxResults: number
  cursor?: string
  ifFeedVersion?: string
  ifPricingVersion?: string
}

export type LookupQuery = Selection & { refs: readonly SignalRef[] }

export type Versions = { feedVersion: string; pricingVersion?: string; cacheScope: CacheScope }

export type Page = Versions & {
  kind: 'page'
  /** The rows as JSON, without the array's brackets: ready to be written between them. */
  rows: readonly Uint8Array[]
  count: number
  total: number
  cursor?: string
  /** What the snapshot behind the answer lacks. */
  gaps: readonly Gap[]
  warnings: readonly AdcpWarning[]
}

export type WholesaleAnswer = ({ kind: 'unchanged'; gaps: readonly Gap[] } & Versions) | Page | Refused

/**
 * What a generation of the feed lacks for another reason than a decision, as it was known when the generation was
 * built. Each answer reports the gaps of its own snapshot (specification, "IncompleteEntry"). Upstreams are named by
 * canonical url, because their id may change before the answer is given.
 */
export type Gap =
  /** The snapshot holds rows of these upstreams only, whatever other upstreams have come since. */
  | { kind: 'others'; carried: ReadonlySet<string> }
  /** Rows of this upstream are withheld without a decision: these providers' files could not be read. */
  | { kind: 'provider'; agentUrl: string; upstream: string; reason: Undecided; domains: readonly string[] }
  /** Rows of this upstream lack this part, because the upstream last gave it too long ago. */
  | { kind: 'part'; agentUrl: string; part: Part }
  /** What this upstream offers to the reader's account has not been read: its public offers are shown instead. */
  | { kind: 'account'; agentUrl: string }
  /** The snapshot was made for another account than the one that the reader's name now stands for. */
  | { kind: 'other_account' }

/**
 * Whether an upstream of the account has not been read yet: the answers must then not be presented as the rate card.
 */
export function isUnconfirmed(gaps: readonly Gap[]): boolean {
  return gaps.some(({ kind }) => kind === 'account')
}
