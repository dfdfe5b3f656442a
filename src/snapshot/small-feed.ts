/**
 * How large a feed may be that has no threads: it is merged and indexed on the one that serves, in portions
 * (docs/decisions.md#small-feeds-have-no-threads).
 */
import type { ProviderState } from '../authz/rules/verdict.js'
import type { Slice } from '../upstreams/rows/slice.js'

/** A row is one step; every word of it is looked at. */
const LONGEST_ROW_BYTES = 16 * 1024

/** Bytes of rows and provider files. */
export const SMALL_FEED_BYTES = 1024 * 1024

/** Bytes of rows by their lengths; infinite when one is too long for the thread that serves. */
export function smallBytes(lengths: Uint32Array): number {
  let sum = 0
  for (const length of lengths) {
    if (length > LONGEST_ROW_BYTES) return Number.POSITIVE_INFINITY
    sum += length
  }
  return sum
}

/** What a feed is made from. */
type FeedParts = {
  slices: readonly Slice[]
  providers: readonly ProviderState[]
}

/** Bytes of all of it; infinite when one row is too long. */
export const feedBytes = ({ slices, providers }: FeedParts): number =>
  slices.reduce((sum, { rows }) => sum + smallBytes(rows.length), 0) +
  providers.reduce((sum, { document }) => sum + (document?.bytes.byteLength ?? 0), 0)
