/**
 * Makes a column of a new snapshot from the previous column and the few values that changed. When nothing was inserted
 * or removed and no value differs, the new snapshot reuses the previous column: snapshots share what did not change
 * (docs/decisions.md#snapshots-share-what-did-not-change).
 */
import { type Numbers, u32 } from './columns.js'

/** Entries `start` to `end` of the previous snapshot, or of the patch. Runs in order make up the new snapshot. */
export type Run = { readonly patch: boolean; readonly start: number; readonly end: number }

/** Joins `previous` and `patch` in the order of the runs. */
export type Weave = {
  readonly runs: readonly Run[]
  /** The number of entries in the result. */
  readonly count: number
  /** Whether every previous entry keeps its position; the patch then only replaces entries in place. */
  readonly inPlace: boolean
}

const SHORT = 32 // up to this many values, a loop is faster than a copy through a view

export function weaveOf(runs: readonly Run[], before: number): Weave {
  let count = 0
  let inPlace = true
  for (const { patch, start, end } of runs) {
    if (!patch && start !== count) inPlace = false
    count += end - start
  }
  return { runs, count, inPlace: inPlace && count === before }
}

function put(to: Numbers, at: number, from: Numbers, start: number, end: number): void {
  if (end - start > SHORT) {
    to.set(from.subarray(start, end) as never, at)
    return
  }
  for (let next = start; next < end; next += 1) to[at + next - start] = from[next] as number
}

/** NaN equals NaN: both mean that there is no number. */
const equal = (a: number, b: number) => a === b || (Number.isNaN(a) && Number.isNaN(b))

function differs(previous: Numbers, patch: Numbers, { runs }: Weave, width: number): boolean {
  let at = 0
  for (const { patch: isPatch, start, end } of runs) {
    if (isPatch) {
      for (let next = start * width; next < end * width; next += 1) {
        const there = previous[(at - start) * width + next] as number
        if (!equal(there, patch[next] as number)) return true
      }
    }
    at += end - start
  }
  return false
}

/** `width` values per entry. */
export function woven<T extends Numbers>(
  make: (length: number) => T,
  previous: T,
  patch: T,
  weave: Weave,
  width = 1,
): T {
  if (weave.inPlace && !differs(previous, patch, weave, width)) return previous
  const [only] = weave.runs
  if (weave.runs.length === 1 && only?.patch && patch.length === weave.count * width) return patch
  const to = make(weave.count * width)
  if (weave.inPlace) to.set(previous as never)
  let at = 0
  for (const { patch: isPatch, start, end } of weave.runs) {
    if (isPatch || !weave.inPlace) {
      put(to, at * width, isPatch ? patch : previous, start * width, end * width)
    }
    at += end - start
  }
  return to
}

/** The same runs for children: `at` columns say where an entry's children begin. */
export function childWeave(weave: Weave, previousAt: Uint32Array, patchAt: Uint32Array): Weave {
  const runs = weave.runs.map(({ patch, start, end }): Run => {
    const at = patch ? patchAt : previousAt
    return { patch, start: at[start] as number, end: at[end] as number }
  })
  return weaveOf(runs, previousAt[previousAt.length - 1] as number)
}

/** The `at` column itself; `children` is its `childWeave`. */
export function wovenAt(
  previous: Uint32Array,
  patch: Uint32Array,
  weave: Weave,
  children: Weave,
): Uint32Array {
  if (weave.inPlace && children.inPlace && !shiftsChildren(previous, patch, weave)) return previous
  const to = u32(weave.count + 1)
  let at = 0
  let child = 0
  weave.runs.forEach(({ patch: isPatch, start, end }, run) => {
    const from = isPatch ? patch : previous
    const shift = child - (from[start] as number)
    for (let entry = start; entry < end; entry += 1) to[at + entry - start] = (from[entry] as number) + shift
    at += end - start
    const { start: first, end: last } = children.runs[run] as Run
    child += last - first
  })
  to[at] = child
  return to
}

/** Totals may be equal although one entry has a child more and its neighbour one less. */
function shiftsChildren(previous: Uint32Array, patch: Uint32Array, { runs }: Weave): boolean {
  let at = 0
  for (const { patch: isPatch, start, end } of runs) {
    if (isPatch) {
      const shift = (previous[at] as number) - (patch[start] as number)
      for (let entry = start; entry <= end; entry += 1) {
        if (previous[at + entry - start] !== (patch[entry] as number) + shift) return true
      }
    }
    at += end - start
  }
  return false
}
