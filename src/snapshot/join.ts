/** Joins the columns of the previous snapshot with those of the newly merged signals. */
import { type Maker, mapped, type Numbers, u16, u32 } from './columns.js'
import type { Columns } from './draft.js'
import { unworn } from './row-chunks.js'
import type { Move, SliceIndex } from './slice-index.js'
import type { OfferPlace, Rows, Snapshot } from './snapshot.js'
import { filled, listsOf, type Spec, specsOf, valueAt, WRITTEN } from './table.js'
import { childWeave, type Weave, woven, wovenAt } from './weave.js'

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

/** Joins the word lists behind number columns of two snapshots into one. */
type List = readonly string[]

/** The number of each word. A list that two snapshots share is numbered once. */
const known = new WeakMap<List, ReadonlyMap<string, number>>()

function numbersOf(list: List): ReadonlyMap<string, number> {
  const numbers = known.get(list) ?? new Map(list.map((word, id) => [word, id]))
  known.set(list, numbers)
  return numbers
}

/**
 * The list extended by the words of `patch`, and the patch's column in the list's numbers. The same list when it has
 * all the words.
 */
function joinWords(list: List, patch: List): { list: List; renumbered(column: Uint32Array): Uint32Array } {
  const numbers = numbersOf(list)
  const added = patch.filter((word) => !numbers.has(word))
  const place = new Map(added.map((word, at) => [word, list.length + at]))
  const ids = patch.map((word) => numbers.get(word) ?? (place.get(word) as number))
  return {
    list: added.length === 0 ? list : [...list, ...added],
    renumbered: (column) =>
      ids.every((id, at) => id === at) ? column : mapped(u32, column, (id) => ids[id] as number),
  }
}

const FEW = 64

/** Removes words that no column uses, once they are more than half. The first `fixed` stay in their place. */
function tidied(list: List, columns: readonly Uint32Array[], fixed: number): [List, readonly Uint32Array[]] {
  const used = new Uint8Array(list.length)
  used.fill(1, 0, fixed)
  for (const column of columns) for (let at = 0; at < column.length; at += 1) used[column[at] as number] = 1
  const live = used.reduce((sum, one) => sum + one, 0)
  if (list.length <= live * 2 + FEW) return [list, columns]
  const ids = new Uint32Array(list.length)
  const kept = list.filter((_, id) => used[id])
  let next = 0
  for (let id = 0; id < list.length; id += 1) if (used[id]) ids[id] = next++
  return [kept, columns.map((column) => mapped(u32, column, (id) => ids[id] as number))]
}

const SPECS = specsOf(WRITTEN)
const LISTS = listsOf(WRITTEN)

/** Chunks with new rows are placed after those of the previous snapshot. */
function behind(previous: Rows, patch: Rows): Rows {
  const before = previous.chunks.length
  const chunkOf = mapped(u16, patch.chunkOf, (chunk, entry) => (patch.length[entry] ? chunk + before : 0))
  return { ...patch, chunkOf }
}

/** After a build, some words may no longer be used. */
function tidy(values: Map<string, unknown>, name: string, list: List, fixed: number): void {
  const users = SPECS.filter(([, spec]) => spec.kind === 'values' && spec.list === name)
  const columns = users.map(([path]) => values.get(path) as Uint32Array)
  const [kept, renumbered] = tidied(list, columns, fixed)
  values.set(name, kept)
  users.forEach(([path], at) => {
    values.set(path, renumbered[at])
  })
}

/** `offers`: those of the previous snapshot, in the numbering of the new slices. */
export function joined(previous: Columns, offers: Snapshot['offers'], patch: Columns, weave: Weave): Columns {
  const old = { ...previous, offers }
  const added = { ...patch, rows: behind(previous.rows, patch.rows) }
  const children = {
    deployments: childWeave(weave, old.deployments.at, patch.deployments.at),
    offers: childWeave(weave, offers.at, patch.offers.at),
  }
  const lists = new Map(
    LISTS.map(([path]) => [path, joinWords(valueAt(old, path) as List, valueAt(added, path) as List)]),
  )
  const values = new Map<string, unknown>()

  function join(path: string, spec: Spec): Numbers {
    const before = valueAt(old, path) as Uint32Array
    const now = valueAt(added, path) as Uint32Array
    if (spec.kind === 'starts') return wovenAt(before, now, weave, children[spec.of])
    if (spec.kind !== 'values') throw new TypeError(`${path} is not a column that a build writes`)
    const by = spec.of === 'entry' ? weave : children[spec.of]
    const renumbered = (spec.list && lists.get(spec.list)?.renumbered(now)) ?? now
    return woven(spec.make as Maker<Uint32Array>, before, renumbered, by, spec.width)
  }

  for (const [path, spec] of SPECS) if (spec.kind !== 'list') values.set(path, join(path, spec))
  for (const [path, { fixed }] of LISTS) {
    const list = lists.get(path)?.list ?? []
    if (list === valueAt(old, path)) values.set(path, list)
    else tidy(values, path, list, fixed)
  }
  const columns = filled(WRITTEN, (path) => values.get(path)) as Columns
  const rows = { ...columns.rows, chunks: [...previous.rows.chunks, ...patch.rows.chunks] }
  const fresh = patch.rows.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
  return { ...columns, count: weave.count, rows: unworn(rows, fresh) }
}
