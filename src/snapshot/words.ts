/** Lists of words behind the numbers of a column, and how the lists of two snapshots become one. */
import { mapped, u32 } from './columns.js'

type List = readonly string[]

/** Of a list that two snapshots share, the numbers are counted once. */
const known = new WeakMap<List, ReadonlyMap<string, number>>()

function numbersOf(list: List): ReadonlyMap<string, number> {
  const numbers = known.get(list) ?? new Map(list.map((word, id) => [word, id]))
  known.set(list, numbers)
  return numbers
}

/** The list with the words of `patch` behind its own, and the patch's column in its numbers; the same list when it has all. */
export function joinWords(
  list: List,
  patch: List,
): { list: List; renumbered(column: Uint32Array): Uint32Array } {
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

/** Leaves out words that no column uses, once they are the larger part. `fixed`: so many stay in their place. */
export function tidied(
  list: List,
  columns: readonly Uint32Array[],
  fixed: number,
): [List, readonly Uint32Array[]] {
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
