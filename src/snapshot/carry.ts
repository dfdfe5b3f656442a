/** Where the offers of the snapshot before are now: in the numbering of the new slices, and whose signals lost one. */
import { u16, u32 } from './columns.js'
import type { OfferPlace } from './draft.js'
import type { Move, SliceIndex } from './slice-index.js'
import type { Snapshot } from './snapshot.js'

export type Carried = {
  readonly offers: Snapshot['offers']
  /** The offers of an entry that are still there. */
  of(entry: number): OfferPlace[]
}

/** -1: gone. */
function rowNow(move: Move | undefined, row: number): number {
  if (!move) return -1
  return move.moved ? (move.moved[row] as number) : row
}

/** Whether a slice is another number now, or a row of it that is still there has another place. */
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
