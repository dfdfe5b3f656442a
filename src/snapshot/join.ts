/**
 * Joins the columns of the previous snapshot with those of the signals that were merged again. When nothing was inserted or
 * removed and no value differs, the new snapshot reuses the previous column: snapshots share what did not change
 * (docs/decisions.md#snapshots-share-what-did-not-change). An unchanged row stays in a chunk that snapshots share. Chunks that are
 * mostly dead rows are dropped after their live rows are copied, a few per build, so that no build pays for all of them.
 */
import { type Maker, mapped, type Numbers, u16, u32 } from '../process/shared-memory.js'
import { createChunks } from '../upstreams/rows/slab.js'
import { filled, listsOf, type Rows, type Spec, specsOf, valueAt, WRITTEN } from './columns.js'
import { type Columns, FIRST_CHUNK_BYTES } from './draft.js'
import type { Snapshot } from './snapshot.js'

const SHORT = 32 // up to this many values, a loop is faster than a copy through a view
const FEW = 64 // words that no column uses and that stay all the same

const LIVE_SHARE = 0.75 // of a chunk's bytes: one with less is worn
/** Small builds leave small chunks. Beyond this many, the small ones are copied into one. */
const MOST_SMALL_CHUNKS = 32
const SMALL_CHUNK = 1024 * 1024
/** Bytes to copy per byte that changed: at this rate chunks are dropped as fast as they fill with dead rows. */
const REWRITTEN_PER_NEW = 4
const LEAST_REWRITTEN = 16 * 1024 * 1024

/** Entries `start` to `end` of the previous snapshot, or of the patch. Runs in order make up the new snapshot. */
export type Run = { readonly patch: boolean; readonly start: number; readonly end: number }

/** Joins `previous` and `patch` in the order of the runs. */
type Weave = {
  readonly runs: readonly Run[]
  /** The number of entries in the result. */
  readonly count: number
  /** Whether every previous entry keeps its position; the patch then only replaces entries in place. */
  readonly inPlace: boolean
}

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

/** The words behind the numbers of columns. */
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

/** Bytes of each chunk that rows still use. */
function liveBytes({ chunks, chunkOf, length }: Rows): Float64Array {
  const live = new Float64Array(chunks.length)
  for (let entry = 0; entry < length.length; entry += 1) {
    const bytes = length[entry] as number
    const chunk = chunkOf[entry] as number
    if (bytes > 0) live[chunk] = (live[chunk] as number) + bytes + 1
  }
  return live
}

/** The chunks to drop, those with most dead bytes first, up to `budget` live bytes that must be copied. */
function wornChunks({ chunks }: Rows, live: Float64Array, budget: number): Uint8Array {
  const many = chunks.filter(({ byteLength }) => byteLength < SMALL_CHUNK).length > MOST_SMALL_CHUNKS
  const share = (at: number) => (live[at] as number) / (chunks[at] as Uint8Array).byteLength
  const worn = chunks
    .map((_, at) => at)
    .filter((at) => share(at) < LIVE_SHARE || (many && (chunks[at] as Uint8Array).byteLength < SMALL_CHUNK))
    .sort((a, b) => share(a) - share(b))
  const left = new Uint8Array(chunks.length)
  let written = 0
  for (const at of worn) {
    written += live[at] as number
    if (written > budget) break
    left[at] = 1
  }
  return left
}

/** The same rows without worn chunks; the same object when none is worn. `fresh`: bytes that this build added. */
export function unworn(rows: Rows, fresh: number): Rows {
  const live = liveBytes(rows)
  const budget = Math.max(LEAST_REWRITTEN, fresh * REWRITTEN_PER_NEW)
  const left = wornChunks(rows, live, budget)
  if (!left.includes(1)) return rows
  const written = createChunks(FIRST_CHUNK_BYTES)
  const kept = rows.chunks.filter((_, at) => !left[at])
  const numbers = new Uint16Array(rows.chunks.length)
  let next = 0
  for (let at = 0; at < left.length; at += 1) if (!left[at]) numbers[at] = next++
  const chunkOf = u16(rows.chunkOf.length)
  const start = u32(rows.start.length)
  start.set(rows.start)
  for (let entry = 0; entry < chunkOf.length; entry += 1) {
    const chunk = rows.chunkOf[entry] as number
    const bytes = rows.length[entry] as number
    if (bytes === 0) continue
    if (!left[chunk]) {
      chunkOf[entry] = numbers[chunk] as number
      continue
    }
    const from = rows.start[entry] as number
    const place = written.room(bytes + 1)
    place.buffer.set((rows.chunks[chunk] as Uint8Array).subarray(from, from + bytes + 1), place.start)
    written.take(bytes + 1)
    start[entry] = place.start
    chunkOf[entry] = kept.length + place.chunk
  }
  return { ...rows, chunks: [...kept, ...written.finish()], chunkOf, start }
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
