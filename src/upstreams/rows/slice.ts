/**
 * What one upstream offers to one credential scope: its listings, the digests by which they are told apart, and the tokens and
 * times they came with. Immutable: a complete walk makes a new slice, nothing else does (specification, "mid-pagination").
 * A digest is the first 64 bits of SHA-256, as two words: numbers of 64 bits would be an object each.
 */
import { hash, randomInt } from 'node:crypto'
import { bufferOf } from '../../adcp/json.js'
import type { SignalRow } from '../../adcp/signal.js'
import { bytesOf, type Slab, slabRow } from './slab.js'

/** The four bytes of a digest from `at` on, as a number. `digest`: as binary text, which costs a fifth of taking a Buffer. */
export function digestWord(digest: string, at: number): number {
  return (
    ((digest.charCodeAt(at) << 24) |
      (digest.charCodeAt(at + 1) << 16) |
      (digest.charCodeAt(at + 2) << 8) |
      digest.charCodeAt(at + 3)) >>>
    0
  )
}

/** The `index`th digest in `words`, which are a BigUint64Array's: its low word comes first. */
export function putDigest(words: Uint32Array, index: number, of: Uint8Array | string): void {
  const digest = hash('sha256', of, 'binary')
  words[index * 2] = digestWord(digest, 4)
  words[index * 2 + 1] = digestWord(digest, 0)
}

/** The words of digests, as `putDigest` puts them: a view, not a copy. */
export function digestNumbers(digests: BigUint64Array): Uint32Array {
  return new Uint32Array(digests.buffer, digests.byteOffset, digests.length * 2)
}

/** One digest alone. */
export function digestOf(of: Uint8Array | string): bigint {
  const digest = new BigUint64Array(1)
  putDigest(digestNumbers(digest), 0, of)
  return digest[0] as bigint
}

/** This process or thread alone knows them. */
const [LOW, HIGH] = [randomInt(2 ** 32), randomInt(2 ** 32)]
const [SPREAD, SPREAD_MORE] = [0x9e3779b1, 0x85ebca6b] // odd numbers whose bits look random

/**
 * Where to look first for a digest in a table; `mask`: its last slot, all of whose bits are set. By its own bits alone, an
 * upstream could try segments until thousands of them fall into neighbouring slots, and each look would pass over all of these.
 */
export function slotOf(low: number, high: number, mask: number): number {
  let mixed = Math.imul(low ^ LOW, SPREAD)
  mixed = Math.imul(mixed ^ (mixed >>> 15) ^ high ^ HIGH, SPREAD_MORE)
  mixed = Math.imul(mixed ^ (mixed >>> 13), SPREAD)
  return (mixed ^ (mixed >>> 16)) & mask
}

/** One row as the upstream sent it, normalised to the current protocol shape, nothing added. */
export type Listing = SignalRow

/** How the rows were found: by walking the wholesale feed, or by asking a brief-only agent question by question. */
export type SliceMode = 'wholesale' | 'enumerated'

/** A row that was read and not kept, by the names it gave itself: for explain. */
export type RefusedRow = { readonly reason: string; readonly segment?: string; readonly signal?: string }

/** How a row, or (`wrapped`) the envelope of an answer, differs from the current protocol and is read all the same. */
export type Quirk =
  | 'capital_domain'
  | 'signal_id'
  | 'signals_agent_segment_id'
  | 'signal_type'
  | 'pricing'
  | 'deployments'
  | 'wrapped'

/** What an upstream may be unable to tell of its rows while it can tell the rest; `incomplete[]` of its answers names it. */
export const PARTS = ['pricing', 'coverage'] as const
export type Part = (typeof PARTS)[number]

/** The members of a row that make up each part. */
export const PART_FIELDS: Readonly<Record<Part, readonly (keyof Listing)[]>> = {
  pricing: ['pricing_options'],
  coverage: ['coverage_percentage', 'coverage_forecast'],
}

/** The parts that were out at the last walk, each with when the upstream last gave it, ms; 0 when nothing stands in. */
export type Outages = Readonly<Partial<Record<Part, number>>>

export type Slice = {
  /** Upstream id; the key of everything an operator sees. */
  readonly upstream: string
  /** Canonical agent url (docs/protocol.md#urls): the upstream's identity in handles, provenance and authorization. */
  readonly agentUrl: string
  /** `public`, or an opaque name of the account or credential the rows were read with. */
  readonly scope: string
  readonly mode: SliceMode
  /** Listings as JSON, in the upstream's order. */
  readonly rows: Slab
  /** First 64 bits of SHA-256 over each row's bytes: equal digests, equal rows. */
  readonly digests: BigUint64Array
  readonly feedVersion?: string
  readonly pricingVersion?: string
  /** Rows that were read and not kept, by reason. */
  readonly dropped: Readonly<Record<string, number>>
  /** The first of them. */
  readonly refused?: readonly RefusedRow[]
  /** How its agent differs from the current protocol and was read all the same. Absent: not at all. */
  readonly quirks?: readonly Quirk[]
  /** Rows hold these parts as the upstream last gave them. Absent: the last walk gave every part. */
  readonly outages?: Outages
  /** The agent gives no more rows than this to one question, and there may be more. */
  readonly limitedAt?: number
  /** Prices in its rows were told to this credential alone (its name): only the operator can let others see them. */
  readonly pricedFor?: string
  /** When rows were last found to have changed under an unchanged token, ms: its tokens are not believed for a while. */
  readonly caughtAt?: number
  /** When the walk that made it ended, ms since the epoch. */
  readonly walkedAt: number
}

/** By bytes: a comparison number by number would make an object of each. */
export function sameDigests(a: Slice['digests'], b: Slice['digests']): boolean {
  return a === b || Buffer.compare(bytesOf(a), bytesOf(b)) === 0
}

/** A slice as it is kept once its rows are merged: nobody asks any more where their members stand. */
export function withoutPlaces(slice: Slice): Slice {
  const { places, ...rows } = slice.rows
  return places ? { ...slice, rows } : slice
}

/** The listing in one row of a slice. Rows were validated when the slice was made. */
export function sliceListing({ rows }: Slice, row: number): Listing {
  return JSON.parse(bufferOf(slabRow(rows, row)).toString()) as Listing
}
