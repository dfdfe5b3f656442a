/**
 * Rows as a build writes them: the hashes of their parts, so that a reader's version covers exactly the parts it sees
 * (docs/decisions.md#snapshots-and-versions), and the shared memory that they stand in. An unchanged row stays in a chunk
 * that snapshots share. Chunks that are mostly dead rows are dropped after their live rows are copied, a few per build, so
 * that no build pays for all of them.
 */
import type { ActivationKey } from '../adcp/signal.js'
import { coreOf, type Row } from '../merge/row.js'
import { remembered } from '../process/remembered.js'
import { createChunks } from '../upstreams/rows/slab.js'
import { type Column, type Filled, type TABLE, u16, u32 } from './columns.js'
import { digestWords, WORDS } from './keys.js'

/** The bytes of rows, and where each row is in them. */
export type Rows = Filled<typeof TABLE.rows> & { readonly chunks: readonly Uint8Array[] }

/** Of the first chunk that a build writes rows to: a small build uses little memory. */
export const FIRST_CHUNK_BYTES = 64 * 1024

const LIVE_SHARE = 0.75 // of a chunk's bytes: one with less is worn
/** Small builds leave small chunks. Beyond this many, the small ones are copied into one. */
const MOST_SMALL_CHUNKS = 32
const SMALL_CHUNK = 1024 * 1024
/** Bytes to copy per byte that changed: at this rate chunks are dropped as fast as they fill with dead rows. */
const REWRITTEN_PER_NEW = 4
const LEAST_REWRITTEN = 16 * 1024 * 1024

export type Words = readonly number[]

/** Few distinct deployments and prices occur in millions of rows, so each is hashed once. */
const stateWords = remembered<Words>(digestWords)
const priceWords = remembered<Words>(digestWords)

const NO_KEY = [0, 0] as const

/** Half a digest is enough, because keys are only compared with other keys of the same deployment. */
export function keyWords(key: ActivationKey | undefined): readonly [number, number] {
  if (!key) return NO_KEY
  const [first = 0, second = 0] = digestWords(JSON.stringify(key))
  return [first, second]
}

/** The hash of the prices of a row without prices. */
export const NO_PRICES = digestWords('')

export type RowWords = {
  /** Everything except the prices: the digest of the next two. */
  structure: Words
  core: Words
  /** In the row's order. */
  deployments: readonly Words[]
  pricing: Words
}

/** Memory for the digests behind `structure`: to hash fresh memory of a few bytes costs more than the hash. */
const USUAL = Array.from({ length: 16 }, (_, deployments) => new Uint32Array(WORDS * (deployments + 1)))

/** By a loop: for four numbers the engine's own copy costs more. */
function putWords(to: Uint32Array, at: number, words: Words): void {
  for (let word = 0; word < WORDS; word += 1) to[at * WORDS + word] = words[word] as number
}

/** The hashes of one row as it is written. `core`: that of its core, where it is known. */
export function rowWords(row: Row, core = digestWords(coreOf(row))): RowWords {
  const deployments = row.states.map(stateWords)
  const parts = USUAL[deployments.length] ?? new Uint32Array(WORDS * (deployments.length + 1))
  putWords(parts, 0, core)
  for (let at = 0; at < deployments.length; at += 1) putWords(parts, at + 1, deployments[at] as Words)
  const pricing = row.prices === row.tail ? digestWords(row.tail) : priceWords(row.prices)
  return { structure: digestWords(parts), core, deployments, pricing }
}

/** Appends one hash to a column: the one at place `at` of `from`. */
export function pushWords(column: Column<Uint32Array>, from: ArrayLike<number>, at = 0): void {
  column.pushAll(from, at * WORDS, WORDS)
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
