/**
 * A walk brings all rows again, of which most are those of the slice before. Such rows are left where they lie, in chunks
 * that slices share, so that a slice that is still read from (a page walk, an account) costs what changed and no more.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Collected } from '../rows/collect.js'
import { createSlabWriter, type Slab, slabBuffers, slabRow } from '../rows/slab.js'
import type { Slice } from '../rows/slice.js'

const PORTION = 50_000 // rows between two turns of the loop: about a millisecond
const AHEAD = 8 // rows that may have left between two that stayed
const LIVE_SHARE = 0.75 // of a chunk; below, its rows are written anew
const SMALL_CHUNK = 256 * 1024
const MOST_SMALL_CHUNKS = 32 // beyond, small ones are written anew together

/** For each row its place in the slice before, or -1. Upstreams keep their order but for what comes, changes and goes. */
async function matched(digests: BigUint64Array, before: BigUint64Array): Promise<Int32Array> {
  const places = new Int32Array(digests.length).fill(-1)
  let next = 0
  for (let row = 0; row < digests.length; row += 1) {
    if (row > 0 && row % PORTION === 0) await nextTurn()
    const digest = digests[row]
    for (let at = next; at < before.length && at < next + AHEAD; at += 1) {
      if (before[at] !== digest) continue
      places[row] = at
      next = at + 1
      break
    }
  }
  return places
}

/** Chunks of the slice before that stay in use. */
function keptChunks({ chunks, chunkOf, length }: Slab, places: Int32Array): Uint8Array {
  const live = new Float64Array(chunks.length)
  for (const place of places) {
    if (place < 0) continue
    const chunk = chunkOf[place] as number
    live[chunk] = (live[chunk] as number) + (length[place] as number)
  }
  const isSmall = (at: number) => (chunks[at] as Uint8Array).byteLength < SMALL_CHUNK
  const many = chunks.filter((_, at) => isSmall(at)).length > MOST_SMALL_CHUNKS
  return Uint8Array.from(chunks, ({ byteLength }, at) =>
    (live[at] as number) >= byteLength * LIVE_SHARE && !(many && isSmall(at)) ? 1 : 0,
  )
}

function shared<T extends Uint16Array | Uint32Array>(
  make: (buffer: SharedArrayBuffer) => T,
  bytes: number,
): T {
  return make(new SharedArrayBuffer(bytes))
}

/** Whether some of their rows are held once. */
export function doShare(a: Slab, b: Slab): boolean {
  const buffers = new Set(slabBuffers(a))
  return slabBuffers(b).some((buffer) => buffers.has(buffer))
}

/** What was collected, rows that `before` has lying where they lay. */
export async function shareRows<T extends Pick<Collected, 'rows' | 'digests'>>(
  found: T,
  { rows: old, digests }: Slice,
): Promise<T> {
  const places = await matched(found.digests, digests)
  const kept = keptChunks(old, places)
  if (!kept.includes(1)) return found
  const numbers = new Int32Array(kept.length)
  const chunks = old.chunks.filter((_, at) => kept[at])
  for (let at = 0, next = 0; at < kept.length; at += 1) if (kept[at]) numbers[at] = next++
  const { count } = found.rows
  const writer = createSlabWriter()
  const chunkOf = shared((buffer) => new Uint16Array(buffer), count * 2)
  const start = shared((buffer) => new Uint32Array(buffer), count * 4)
  const written: number[] = []
  for (let row = 0; row < count; row += 1) {
    if (row > 0 && row % PORTION === 0) await nextTurn()
    const place = places[row] as number
    const chunk = place < 0 ? -1 : (old.chunkOf[place] as number)
    if (chunk >= 0 && kept[chunk]) {
      chunkOf[row] = numbers[chunk] as number
      start[row] = old.start[place] as number
    } else {
      writer.append(slabRow(found.rows, row))
      written.push(row)
    }
  }
  const fresh = writer.finish()
  written.forEach((row, at) => {
    chunkOf[row] = chunks.length + (fresh.chunkOf[at] as number)
    start[row] = fresh.start[at] as number
  })
  const rows: Slab = {
    count,
    chunks: [...chunks, ...fresh.chunks],
    chunkOf,
    start,
    length: found.rows.length,
  }
  return { ...found, rows }
}
