/**
 * Many byte rows in few large chunks, found by typed-array offsets. Memory is shared, so a worker reads the same
 * bytes without a copy. One Buffer a row would cost a third more memory and long collector pauses
 * (docs/decisions.md#memory-and-threads).
 */
import { type Memory, wholeMemory } from '../../process/remembered.js'
import { u16, u32 } from '../../process/shared-memory.js'

/** The bytes of a typed array: a view, not a copy. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
}

/**
 * A part's bytes in shared memory of their own: a worker reads them without a copy, and typed arrays of wider elements
 * need the alignment. Storages that read into shared memory cost nothing here.
 */
export function sharedBytes(part: Uint8Array): SharedArrayBuffer {
  const { buffer } = part
  if (buffer instanceof SharedArrayBuffer && part.byteLength === buffer.byteLength) return buffer
  const copy = new Uint8Array(new SharedArrayBuffer(part.byteLength))
  copy.set(part)
  return copy.buffer
}

const FIRST_CHUNK_BYTES = 256 * 1024
const LAST_CHUNK_BYTES = 8 * 1024 * 1024
const FIRST_ROWS = 1024
const CACHE_LINE = 64 // bytes, of most processors
/** What was read of rows that were touched: no compiler may leave the reading out. */
const touched = new Uint32Array(1)

/**
 * Where the members of each row stand in its bytes (upstreams/rows/written.ts, `findMembers`): the words up to one of `ends`.
 * A row that has no words was not read for them.
 */
export type Places = { readonly words: Uint32Array; readonly ends: Uint32Array }

/** Immutable once made. Rows keep the order in which they were appended. */
export type Slab = {
  readonly count: number
  readonly chunks: readonly Uint8Array[]
  readonly chunkOf: Uint16Array
  readonly start: Uint32Array
  readonly length: Uint32Array
  /** Absent when they are known of no row. */
  readonly places?: Places
}

function shared(bytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(bytes)
}

function grown<T extends Uint16Array | Uint32Array>(from: T, rows: number, make: (rows: number) => T): T {
  const to = make(rows)
  to.set(from.length > rows ? (from.subarray(0, rows) as T) : from)
  return to
}

/** The bytes of one row, a view and not a copy. */
export function slabRow(slab: Slab, row: number): Uint8Array {
  const start = slab.start[row] as number
  return (slab.chunks[slab.chunkOf[row] as number] as Uint8Array).subarray(
    start,
    start + (slab.length[row] as number),
  )
}

/** Where each row lies, for who reads many of them: a view of each would cost more than reading it does. */
export function createRowFinder({ chunks, chunkOf, start, length, places }: Slab) {
  const memories = chunks.map(wholeMemory)
  const memoryOf = (row: number) => memories[chunkOf[row] as number] as Memory
  const startOf = (row: number) =>
    (chunks[chunkOf[row] as number] as Uint8Array).byteOffset + (start[row] as number)

  /** Reads a byte of each of its cache lines, and the last of its places. */
  function touch(row: number): void {
    const { bytes } = memoryOf(row)
    const from = startOf(row)
    const end = from + (length[row] as number)
    let read = places ? (places.words[(places.ends[row] as number) - 1] as number) : 0
    for (let at = from; at < end; at += CACHE_LINE) read ^= bytes[at] as number
    touched[0] = read
  }

  /** `startOf`: its first byte in its memory. */
  return { memoryOf, startOf, touch }
}

export type RowFinder = ReturnType<typeof createRowFinder>

/** Bytes that the slab's chunks hold. */
export function slabBytes(slab: Slab): number {
  return slab.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0)
}

/** The memory that the slab's rows and their places lie in; slabs may share it. */
export function slabBuffers({ chunks, places }: Slab): ArrayBufferLike[] {
  const views = places ? [...chunks, places.words, places.ends] : chunks
  return views.map(({ buffer }) => buffer)
}

/** Gathers places, in shared memory as the rows. */
function createPlacesWriter() {
  let words = u32(0)
  let ends = u32(0)
  let used = 0
  let rows = 0

  /** Rows up to `count` have none. */
  function skip(count: number): void {
    if (count > ends.length) ends = grown(ends, count * 2, u32)
    ends.fill(used, rows, count)
    rows = count
  }

  /** The places of the rows `first` to `last` (excluded) of an answer, which become the rows from `count` on. */
  function appendRun(given: Places, first: number, last: number, count: number): void {
    const from = given.ends[first - 1] ?? 0
    const more = (given.ends[last - 1] as number) - from
    const shift = used - from
    if (used + more > words.length) words = grown(words, (used + more) * 2, u32)
    words.set(given.words.subarray(from, from + more), used)
    skip(count + last - first)
    for (let row = first; row < last; row += 1)
      ends[count + row - first] = (given.ends[row] as number) + shift
    used += more
  }

  function finish(count: number): { places?: Places } {
    if (used === 0) return {}
    skip(count)
    return { places: { words: grown(words, used, u32), ends: grown(ends, count, u32) } }
  }

  return { appendRun, bytes: () => used * words.BYTES_PER_ELEMENT, finish }
}

/** Where bytes may be written: from `start` on in `buffer`, which is the chunk of that number. */
type Room = { readonly buffer: Buffer; readonly chunk: number; readonly start: number }

/**
 * Shared memory that is written from its beginning on, in chunks which double from `firstBytes` up to a size that is large
 * enough for few of them: who writes little takes little. What is longer than a chunk gets its own.
 */
export function createChunks(firstBytes: number) {
  const chunks: Uint8Array[] = []
  let current: Buffer = Buffer.alloc(0)
  let used = 0

  /** Room for at least so many bytes; `take` says how many of them were used. */
  function room(bytes: number): Room {
    if (chunks.length === 0 || used + bytes > current.byteLength) {
      const last = chunks.pop()
      if (last) chunks.push(last.subarray(0, used))
      const usual = Math.min(LAST_CHUNK_BYTES, firstBytes * 2 ** chunks.length)
      const memory = shared(Math.max(usual, bytes))
      current = Buffer.from(memory)
      used = 0
      chunks.push(new Uint8Array(memory))
    }
    return { buffer: current, chunk: chunks.length - 1, start: used }
  }

  function take(bytes: number): void {
    used += bytes
  }

  /** The chunks, of which only the last is copied to its final size. */
  function finish(): readonly Uint8Array[] {
    if (chunks.length === 0) return []
    const last = new Uint8Array(shared(used))
    last.set(current.subarray(0, used))
    return [...chunks.slice(0, -1), last]
  }

  return { room, take, finish }
}

/** Collects rows, with the places of their members or without; `finish` trims what is unused and gives the slab. */
export function createSlabWriter() {
  const chunks = createChunks(FIRST_CHUNK_BYTES)
  let chunkOf = u16(FIRST_ROWS)
  let start = u32(FIRST_ROWS)
  let length = u32(FIRST_ROWS)
  const placed = createPlacesWriter()
  let count = 0

  function makeRoom(rows: number): void {
    if (rows <= start.length) return
    const most = Math.max(rows, start.length * 2)
    chunkOf = grown(chunkOf, most, u16)
    start = grown(start, most, u32)
    length = grown(length, most, u32)
  }

  /** The rows `first` to `last` (excluded) of those that stand one after another in `bytes`, each up to one of `ends`. */
  function appendRun(
    bytes: Uint8Array,
    ends: ArrayLike<number>,
    first: number,
    last: number,
    places?: Places,
  ): void {
    makeRoom(count + last - first)
    if (places) placed.appendRun(places, first, last, count)
    for (let row = first; row < last; ) {
      const from = row === 0 ? 0 : (ends[row - 1] as number)
      const { buffer, chunk, start: to } = chunks.room((ends[row] as number) - from)
      const most = from + buffer.byteLength - to
      let end = from
      for (; row < last && (ends[row] as number) <= most; row += 1) {
        chunkOf[count] = chunk
        start[count] = to + end - from
        length[count] = (ends[row] as number) - end
        end = ends[row] as number
        count += 1
      }
      buffer.set(bytes.subarray(from, end), to)
      chunks.take(end - from)
    }
  }

  const append = (row: Uint8Array): void => appendRun(row, [row.byteLength], 0, 1)

  function finish(): Slab {
    return {
      count,
      chunks: chunks.finish(),
      chunkOf: grown(chunkOf, count, u16),
      start: grown(start, count, u32),
      length: grown(length, count, u32),
      ...placed.finish(count),
    }
  }

  return { append, appendRun, placesBytes: placed.bytes, finish }
}

/** A few rows as a slab of exactly their size. */
export function packSlab(rows: Iterable<Uint8Array>): Slab {
  const writer = createSlabWriter()
  for (const row of rows) writer.append(row)
  return writer.finish()
}
