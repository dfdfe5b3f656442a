/** What a caller may ask of the feed and what comes back: the contract between `feed` and `server`. */
import type { AdcpWarning, Refused } from '../adcp/error.js'
import type { SignalRef } from '../adcp/reference.js'
import type { Destination } from '../adcp/signal.js'
import type { Undecided } from '../authz/rules/verdict.js'
import type { Part } from '../upstreams/rows/slice.js'

export type CacheScope = 'public' | 'account'

/** Whose eyes the feed is seen with (docs/decisions.md#callers). */
export type Reader = {
  /** Binds cursors; never published. */
  caller: string
  /** `metadata`: no prices, no keys (anonymous callers). */
  visibility: 'full' | 'metadata'
  /** Destinations whose activation keys the reader may see. */
  grants: readonly Destination[]
  /** The account overlay asked for, once it is known to be the reader's. */
  account?: string
  /** Speaks a release in which a signal without a price is none: it is not shown any. */
  pricedOnly?: boolean
}

export type Filters = Readonly<Record<string, unknown>>

/** What shapes an answer whether rows are enumerated or looked up. Values have passed the request schema. */
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
  /** What the snapshot that it comes from lacks. */
  gaps: readonly Gap[]
  warnings: readonly AdcpWarning[]
}

export type WholesaleAnswer = ({ kind: 'unchanged'; gaps: readonly Gap[] } & Versions) | Page | Refused

/**
 * What a generation of the feed lacks for another reason than a decision, as it was known when it was built. Each answer
 * names the gaps of the snapshot that it comes from (specification, "IncompleteEntry"). Upstreams are known by their canonical
 * urls: they may go by another id when the answer is given.
 */
export type Gap =
  /** Rows of these upstreams are in the snapshot, and of no other, whoever has come since. */
  | { kind: 'others'; carried: ReadonlySet<string> }
  /** Rows of this upstream are withheld, and nobody has decided so: these providers' files could not be read. */
  | { kind: 'provider'; agentUrl: string; upstream: string; reason: Undecided; domains: readonly string[] }
  /** Rows of this upstream are without this part, which it gave too long ago. */
  | { kind: 'part'; agentUrl: string; part: Part }
  /** What this upstream offers to the reader's account has not been read: what it offers to everybody stands in its place. */
  | { kind: 'account'; agentUrl: string }
  /** The reader's account is not the one any more that the snapshot was put together for. */
  | { kind: 'other_account' }

/** An account's answers cannot pass for the rate card while one of its upstreams has not said what it offers to it. */
export function isUnconfirmed(gaps: readonly Gap[]): boolean {
  return gaps.some(({ kind }) => kind === 'account')
}
