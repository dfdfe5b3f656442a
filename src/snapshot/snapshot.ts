/**
 * One immutable state of the whole merged feed (docs/decisions.md#snapshots-and-versions): rows as bytes in shared
 * chunks, columns for what is filtered, and for each signal the listings it came from. Plain data, so that a worker
 * can make it and post it. Entry `i` of every column speaks of the same signal; entries stand in key order. A
 * withheld signal is an entry without a row: its offers are known, the feed does not show it.
 */

import { HANDLE_LENGTH } from '../merge/identity.js'
import { byUpstream } from '../merge/order.js'
import type { Listing, Slice } from '../upstreams/rows/slice.js'
import { sliceListing } from '../upstreams/rows/slice.js'
import type { Memory } from './memory.js'

export type IndexedSlice = {
  readonly slice: Slice
  /** The key of each row's identity (feed/keys.ts). */
  readonly keys: Uint32Array
}

/** Rows lie in their chunk with a comma behind, so that rows in sequence are one piece of a page. */
export type Rows = {
  readonly chunks: readonly Uint8Array[]
  readonly chunkOf: Uint16Array
  readonly start: Uint32Array
  /** Bytes up to the prices, without a closing brace (merge/signal.ts, head and tail). */
  readonly head: Uint32Array
  /** All bytes; 0 when the signal is withheld. */
  readonly length: Uint32Array
}

/** What filters ask, one number a signal. */
export type Facts = {
  /** Index into SIGNAL_TYPES. */
  readonly type: Uint8Array
  /** Index into `providers` and `domains`; 0 is the empty word: none. */
  readonly provider: Uint32Array
  readonly domain: Uint32Array
  /** Index into `countrySets`; 0: no bound. */
  readonly countries: Uint32Array
  /** 1: its offers differ in their countries. */
  readonly mixed: Uint8Array
  /** 1: one of its offers lists no deployment, so may be asked for any destination. */
  readonly anywhere: Uint8Array
  /** NaN: not stated. */
  readonly coverage: Float64Array
  readonly cpm: Float64Array
  readonly percent: Float64Array
  /** What `cpm` is in (merge/pricing.ts). */
  readonly currency: Uint32Array
  readonly providers: readonly string[]
  readonly domains: readonly string[]
  /** Comma-joined. */
  readonly countrySets: readonly string[]
}

/** Deployments of entry `i` are `at[i]` to `at[i + 1]`, in the order in which its row names them. */
export type DeploymentColumns = {
  readonly at: Uint32Array
  readonly destination: Uint32Array
  /** Four words: the digest of its state and the offers that give it (feed/row-words.ts). */
  readonly words: Uint32Array
  /** Two words: the digest of its activation key; 0 0 when it has none. */
  readonly key: Uint32Array
  readonly destinations: readonly string[]
}

/**
 * Offers of entry `i` are `at[i]` to `at[i + 1]`: where its listings lie, whether they stand in its row, and where they
 * may be used, as an index into `countrySets`.
 */
export type OfferColumns = {
  readonly at: Uint32Array
  readonly slice: Uint16Array
  readonly row: Uint32Array
  readonly stands: Uint8Array
  readonly countries: Uint32Array
}

/** Four words a signal: what its head, its head without deployments, and its tail hash to (feed/row-words.ts). */
export type Digests = {
  readonly structure: Uint32Array
  readonly core: Uint32Array
  readonly pricing: Uint32Array
}

/**
 * The digests of buckets of signals, by the first bits of their key: what a change touches is hashed again, no more.
 */
export type HashTree = {
  readonly structure: Uint8Array
  readonly pricing: Uint8Array
  readonly unseen: Uint8Array
}

export type Snapshot = {
  /** Content-addressed: equal feeds have equal ids, in any process. */
  readonly id: string
  /** Entries, withheld ones included. */
  readonly count: number
  readonly keys: Uint32Array
  /** Entries that have a row, in order. */
  readonly shown: Uint32Array
  readonly rows: Rows
  readonly facts: Facts
  readonly deployments: DeploymentColumns
  readonly offers: OfferColumns
  readonly digests: Digests
  readonly tree: HashTree
  /** Whole-feed digests. */
  readonly structure: string
  readonly pricing: string
  readonly slices: readonly IndexedSlice[]
  /** What each provider said when this was built. */
  readonly stamps: ReadonlyMap<string, string>
  readonly memory: Memory
}

const decoder = new TextDecoder()
const HANDLE_AT = '{"signal_agent_segment_id":"'.length

function piece(snapshot: Snapshot, entry: number, from: number, to: number): Uint8Array {
  const { chunks, chunkOf, start } = snapshot.rows
  const at = start[entry] as number
  return (chunks[chunkOf[entry] as number] as Uint8Array).subarray(at + from, at + to)
}

/** A row's bytes, prices included: a view, not a copy. */
export function rowBytes(snapshot: Snapshot, entry: number): Uint8Array {
  return piece(snapshot, entry, 0, snapshot.rows.length[entry] as number)
}

/** A row's bytes up to its prices, without the closing brace. */
export function headBytes(snapshot: Snapshot, entry: number): Uint8Array {
  return piece(snapshot, entry, 0, snapshot.rows.head[entry] as number)
}

/** `signal_agent_segment_id`, which every row begins with. */
export function handleAt(snapshot: Snapshot, entry: number): string {
  return decoder.decode(piece(snapshot, entry, HANDLE_AT, HANDLE_AT + HANDLE_LENGTH))
}

/** The row as an object. */
export function rowAt(snapshot: Snapshot, entry: number): Record<string, unknown> {
  return JSON.parse(decoder.decode(rowBytes(snapshot, entry))) as Record<string, unknown>
}

/** A listing that stands in a signal's row, with the slice it was read from. */
export type StandingListing = { agentUrl: string; slice: Slice; listing: Listing }

/** In the order in which they were merged (merge/order.ts): of two equal deployments the first gives the key. */
export function standingListings(snapshot: Snapshot, entry: number): StandingListing[] {
  const { at, slice, row, stands } = snapshot.offers
  const found: StandingListing[] = []
  for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
    const from = snapshot.slices[slice[offer] as number]?.slice
    if (!stands[offer] || !from) continue
    found.push({ agentUrl: from.agentUrl, slice: from, listing: sliceListing(from, row[offer] as number) })
  }
  return found.length < 2 ? found : found.sort(byUpstream)
}
