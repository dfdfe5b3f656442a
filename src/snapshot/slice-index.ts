/**
 * Maps the rows of slices to signals, and finds what changed since the slices before them: which rows are new, and where the
 * offers of the previous snapshot are now. A row whose bytes are known is not parsed again
 * (docs/decisions.md#memory-and-threads).
 */
import { type Identity, identityOf, putIdentity } from '../merge/identity.js'
import { type Half, halfOf, isNoKey, sortedPositions, WORDS } from '../merge/keys.js'
import { type InPortions, type Meter, rowUnits } from '../process/portions.js'
import { u8, u16, u32 } from '../process/shared-memory.js'
import { bytesOf, createRowFinder, type RowFinder } from '../upstreams/rows/slab.js'
import {
  digestNumbers,
  type Listing,
  type Slice,
  sameDigests,
  sliceListing,
  slotOf,
} from '../upstreams/rows/slice.js'
import { writtenRef } from '../upstreams/rows/written.js'
import type { IndexedSlice, OfferPlace, Snapshot } from './snapshot.js'

/** Where the rows of an earlier slice are now: `moved[row]` is the row's new place, -1 when it is gone. */
export type Move = { to: number; moved?: Int32Array }

type SliceIndex = {
  readonly slices: readonly IndexedSlice[]
  /** One per earlier slice; undefined when the upstream left. */
  readonly moves: readonly (Move | undefined)[]
  /** Rows that no earlier slice has, in key order. */
  readonly fresh: {
    readonly keys: Uint32Array
    /** What `putIdentity` gave with each key. */
    readonly rest: Uint8Array
    readonly slice: Uint16Array
    readonly row: Uint32Array
  }
}

/** Which signal a row offers; undefined when it names none. `finder`: of the slice's rows. */
export function identityAt(slice: Slice, row: number, finder: RowFinder): Identity | undefined {
  const start = finder.startOf(row)
  const ref = writtenRef(finder.memoryOf(row), start, start + (slice.rows.length[row] as number))
  const listing = ref ? ({ signal_ref: ref } as Listing) : sliceListing(slice, row)
  return identityOf(listing, slice.agentUrl)
}

/** Finds rows by digest, each row once. Open addressing over the digests themselves. */
function createFinder(digests: Uint32Array) {
  const count = digests.length / 2
  const mask = 2 ** Math.ceil(Math.log2(Math.max(2, count * 2))) - 1
  const slots = new Int32Array(mask + 1) // row + 1
  for (let row = 0; row < count; row += 1) {
    let slot = slotOf(digests[row * 2] as number, digests[row * 2 + 1] as number, mask)
    while (slots[slot] !== 0) slot = (slot + 1) & mask
    slots[slot] = row + 1
  }
  const taken = new Uint8Array(count)

  return (low: number, high: number): number => {
    for (let slot = slotOf(low, high, mask); slots[slot] !== 0; slot = (slot + 1) & mask) {
      const row = (slots[slot] as number) - 1
      if (digests[row * 2] === low && digests[row * 2 + 1] === high && !taken[row]) {
        taken[row] = 1
        return row
      }
    }
    return -1
  }
}

function sameWords(a: Uint32Array, b: Uint32Array): boolean {
  return Buffer.compare(bytesOf(a), bytesOf(b)) === 0
}

type Indexed = { keys: Uint32Array; freshRows: number[]; rests: number[]; moved: Int32Array | undefined }

/** What is known of each row of a slice, in memory that two threads write: its key, and what `putIdentity` gave with it. */
export type RowKeys = { readonly keys: Uint32Array; readonly rests: Uint8Array }

export const createRowKeys = ({ rows }: Slice): RowKeys => ({
  keys: u32(rows.count * WORDS),
  rests: u8(rows.count),
})

/** Writes those of the first or second half of the rows. A row that names no signal keeps a key of zeros. */
export function putRowKeys(slice: Slice, { keys, rests }: RowKeys, half: Half): void {
  const { count } = slice.rows
  const middle = count >>> 1
  const finder = createRowFinder(slice.rows)
  for (let row = half === 0 ? 0 : middle; row < (half === 0 ? middle : count); row += 1) {
    const identity = identityAt(slice, row, finder)
    if (identity) rests[row] = putIdentity(keys, row, identity)
  }
}

/** Which signals are built: those of one half of the keys, where all keys are known. */
export type KeyHalf = { readonly half: Half; readonly rowKeys: ReadonlyMap<Slice, RowKeys> }

/** All rows are fresh; those of its signals are given. */
function indexedHalf(slice: Slice, { half, rowKeys }: KeyHalf): Indexed {
  const { keys, rests } = rowKeys.get(slice) as RowKeys
  const freshRows: number[] = []
  for (let row = 0; row < slice.rows.count; row += 1) {
    if (halfOf(keys, row) === half && !isNoKey(keys, row)) freshRows.push(row)
  }
  return { keys, freshRows, rests: freshRows.map((row) => rests[row] as number), moved: undefined }
}

function* indexed(slice: Slice, before: IndexedSlice | undefined, meter: Meter): InPortions<Indexed> {
  const count = slice.rows.count
  const keys = u32(count * WORDS)
  const freshRows: number[] = []
  const rests: number[] = []
  const finder = createRowFinder(slice.rows)
  const moved = before && new Int32Array(before.slice.rows.count).fill(-1)
  const find = before && createFinder(digestNumbers(before.slice.digests))
  const digests = digestNumbers(slice.digests)
  for (let row = 0; row < count; row += 1) {
    const old = find ? find(digests[row * 2] as number, digests[row * 2 + 1] as number) : -1
    if (before && moved && old >= 0) {
      moved[old] = row
      keys.set(before.keys.subarray(old * WORDS, (old + 1) * WORDS), row * WORDS)
      continue
    }
    const identity = identityAt(slice, row, finder)
    meter.did(rowUnits(0))
    if (meter.isDue()) yield
    if (!identity) continue
    rests.push(putIdentity(keys, row, identity))
    freshRows.push(row)
  }
  const isSame = before && sameWords(keys, before.keys)
  return { keys: isSame ? before.keys : keys, freshRows, rests, moved }
}

type FreshRows = { slice: number; rows: readonly number[]; rests: readonly number[]; keys: Uint32Array }

/** Rows with one key stay in slice order, which is upstream order. */
function inKeyOrder(parts: readonly FreshRows[]): SliceIndex['fresh'] {
  const count = parts.reduce((sum, { rows }) => sum + rows.length, 0)
  const gathered = new Uint32Array(count * WORDS)
  const sliceOf = new Uint16Array(count)
  const rowOf = new Uint32Array(count)
  const restOf = new Uint8Array(count)
  let at = 0
  for (const { slice, rows, rests, keys } of parts) {
    for (let fresh = 0; fresh < rows.length; fresh += 1) {
      const row = rows[fresh] as number
      for (let word = 0; word < WORDS; word += 1) {
        gathered[at * WORDS + word] = keys[row * WORDS + word] as number
      }
      sliceOf[at] = slice
      rowOf[at] = row
      restOf[at] = rests[fresh] as number
      at += 1
    }
  }
  const order = sortedPositions(gathered)
  const fresh = {
    keys: new Uint32Array(count * WORDS),
    rest: new Uint8Array(count),
    slice: new Uint16Array(count),
    row: new Uint32Array(count),
  }
  for (let to = 0; to < count; to += 1) {
    const from = order[to] as number
    for (let word = 0; word < WORDS; word += 1) {
      fresh.keys[to * WORDS + word] = gathered[from * WORDS + word] as number
    }
    fresh.slice[to] = sliceOf[from] as number
    fresh.row[to] = rowOf[from] as number
    fresh.rest[to] = restOf[from] as number
  }
  return fresh
}

const place = ({ upstream, agentUrl, mode }: Slice) => JSON.stringify([agentUrl, upstream, mode])

/**
 * Slices in upstream order, which decides whose value is published (docs/decisions.md#merging). `only`: the fresh rows of its
 * signals, where no slice was before.
 */
export function* indexSlices(
  slices: readonly Slice[],
  before: readonly IndexedSlice[],
  meter: Meter,
  only?: KeyHalf,
): InPortions<SliceIndex> {
  const ordered = [...slices].sort((a, b) => (place(a) < place(b) ? -1 : 1))
  const earlier = new Map(before.map((one, at) => [place(one.slice), { one, at }]))
  const moves: (Move | undefined)[] = before.map(() => undefined)
  const freshOf: FreshRows[] = []
  const result: IndexedSlice[] = []
  for (const [to, slice] of ordered.entries()) {
    const known = earlier.get(place(slice))
    if (known) earlier.delete(place(slice))
    // A slice that was saved and read again counts as the same: digests tell rows apart.
    if (known && sameDigests(known.one.slice.digests, slice.digests)) {
      moves[known.at] = { to }
      result.push({ slice, keys: known.one.keys })
      continue
    }
    const { keys, freshRows, rests, moved } = only
      ? indexedHalf(slice, only)
      : yield* indexed(slice, known?.one, meter)
    if (known && moved) moves[known.at] = { to, moved }
    freshOf.push({ slice: to, rows: freshRows, rests, keys })
    result.push({ slice, keys })
  }
  return { slices: result, moves, fresh: inKeyOrder(freshOf) }
}

/** Where the offers of the previous snapshot are in the new slices, and which signals lost one. */
type Carried = {
  readonly offers: Snapshot['offers']
  /** How many offers of an entry remain. */
  of(entry: number): OfferPlace[]
}

/** -1 when the offer is gone. */
function rowNow(move: Move | undefined, row: number): number {
  if (!move) return -1
  return move.moved ? (move.moved[row] as number) : row
}

/** Whether a slice has another number now, or one of its remaining rows has another place. */
function isShifted(move: Move | undefined, at: number): boolean {
  return (
    (move !== undefined && move.to !== at) || (move?.moved?.some((to, row) => to >= 0 && to !== row) ?? false)
  )
}

function renumbered({ offers }: Snapshot, moves: SliceIndex['moves']): Snapshot['offers'] {
  if (!moves.some(isShifted)) return offers
  const slice = u16(offers.slice.length)
  const row = u32(offers.row.length)
  for (let offer = 0; offer < slice.length; offer += 1) {
    const move = moves[offers.slice[offer] as number]
    const now = rowNow(move, offers.row[offer] as number)
    if (!move || now < 0) continue // its signal is merged again
    slice[offer] = move.to
    row[offer] = now
  }
  return { ...offers, slice, row }
}

/** Marks in `touched` (one flag an entry) the signals that lost an offer. */
function markLosses({ offers, count }: Snapshot, moves: SliceIndex['moves'], touched: Uint8Array): void {
  const { at, slice, row } = offers
  for (let entry = 0; entry < count; entry += 1) {
    for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
      if (rowNow(moves[slice[offer] as number], row[offer] as number) < 0) touched[entry] = 1
    }
  }
}

/** The offers of the previous snapshot in the numbering of the new slices. Marks in `touched` the entries that lost one. */
export function carryOffers(previous: Snapshot, moves: SliceIndex['moves'], touched: Uint8Array): Carried {
  markLosses(previous, moves, touched)

  function of(entry: number): OfferPlace[] {
    const { at, slice, row } = previous.offers
    const found: OfferPlace[] = []
    for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
      const move = moves[slice[offer] as number]
      const now = rowNow(move, row[offer] as number)
      if (move && now >= 0) found.push({ slice: move.to, row: now })
    }
    return found
  }

  return { offers: renumbered(previous, moves), of }
}
