/** What a caller may ask of the feed and what comes back: the contract between `feed` and `server`. */
import type { AdcpWarning, Refused } from '../adcp/error.js'
import type { SignalRef } from '../adcp/reference.js'
import type { Destination } from '../adcp/signal.js'
import type { Gap } from './gap.js'

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
