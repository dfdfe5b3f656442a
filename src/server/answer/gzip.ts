/**
 * Pages in gzip, compressed once and sent many times. An answer is put together from a stored block with what is the caller's (id,
 * context, message), the compressed rows as they were prepared, and a stored block again: a page in gzip costs less than the same
 * page as it is, where compressing it for each answer would cost ten times as much.
 */
import { constants, crc32, deflateRaw } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { createNumbers, createRecent, isLent } from '../../process/memory.js'
import type { Chunk } from './exchange.js'

const CACHE_BYTES = 64 * 1024 * 1024
const SEEN_PIECES = 20_000
const LEAST_BYTES = Math.ceil(CACHE_BYTES / SEEN_PIECES) // what a smaller one is counted as
const SMALLEST = 2_048 // a smaller page fits in a packet anyway, and a smaller piece of one is sent as it is
const MOST_PIECES = 6 // a page in feed order has one or two pieces, and one on each side; pages with more are rarely repeated
const MOST_AT_ONCE = 2
const STORED_BYTES = 0xffff
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
const END = Buffer.from([1, 0, 0, 0xff, 0xff]) // the last block, empty
const SYNC = { level: 6, finishFlush: constants.Z_SYNC_FLUSH } // ends on a byte, with more blocks to follow

/** Blocks that hold the bytes as they are (RFC 1951, 3.2.4). */
function stored(bytes: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = []
  for (let at = 0; at < bytes.byteLength; at += STORED_BYTES) {
    const part = bytes.subarray(at, at + STORED_BYTES)
    const head = Buffer.allocUnsafe(5)
    head[0] = 0
    head.writeUInt16LE(part.byteLength, 1)
    head.writeUInt16LE(part.byteLength ^ 0xffff, 3)
    blocks.push(head, part)
  }
  return blocks
}

function trailer(crc: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeUInt32LE(crc, 0)
  bytes.writeUInt32LE(length >>> 0, 4)
  return bytes
}

const isLarge = ({ byteLength }: Uint8Array) => byteLength >= SMALLEST

/** A member of the list that is gzip, in any letters, and has no weight of 0 (RFC 9110, sections 8.4.1.3 and 12.5.3). */
const TAKES_GZIP = /(?:^|,)[ \t]*(?:x-)?gzip[ \t]*(?:;(?![ \t]*q=0(?:\.0*)?[ \t]*(?:[;,]|$))[^;,]*)*(?:,|$)/i

/** Whether the client takes gzip. */
export function takesGzip(accept: string | string[] | undefined): boolean {
  return typeof accept === 'string' && TAKES_GZIP.test(accept)
}

export function createGzipPages() {
  const compressed = new LRUCache<string, Buffer>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ byteLength }) => Math.max(byteLength, LEAST_BYTES),
  })
  const seen = createRecent<true>(SEEN_PIECES)
  const underWay = new Set<string>()
  // Rows outside of lent memory are never rewritten in place: their address identifies their content while the memory exists.
  const memoryOf = createNumbers()

  const nameOf = ({ buffer, byteOffset, byteLength }: Uint8Array) =>
    `${memoryOf(buffer)} ${byteOffset} ${byteLength}`

  /** In another thread, and only for pages that are asked for twice: a walk asks for each page once. */
  function prepare(name: string, piece: Uint8Array): void {
    if (!seen.has(name)) {
      seen.set(name, true)
      return
    }
    if (underWay.has(name) || underWay.size >= MOST_AT_ONCE) return
    underWay.add(name)
    deflateRaw(piece, SYNC, (error, bytes) => {
      underWay.delete(name)
      // A page that cannot be compressed is sent uncompressed.
      if (!error) compressed.set(name, bytes)
    })
  }

  /** The chunks as one gzip stream, or undefined while a piece of them is not prepared. */
  function pack(chunks: readonly Chunk[]): Chunk[] | undefined {
    const pieces = chunks.filter((chunk): chunk is Uint8Array => typeof chunk !== 'string')
    if (pieces.length > MOST_PIECES || !pieces.some(isLarge)) return undefined
    if (pieces.some(isLent)) return undefined // other bytes will stand at this address
    const packed: Chunk[] = [HEADER]
    let crc = 0
    let length = 0
    let isWhole = true
    for (const chunk of chunks) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      crc = crc32(bytes, crc)
      length += bytes.byteLength
      if (typeof chunk === 'string' || !isLarge(chunk)) {
        packed.push(...stored(bytes))
        continue
      }
      const name = nameOf(chunk)
      const ready = compressed.get(name)
      if (ready) packed.push(ready)
      else {
        prepare(name, chunk)
        isWhole = false
      }
    }
    return isWhole ? [...packed, END, trailer(crc, length)] : undefined
  }

  return { pack }
}

export type GzipPages = ReturnType<typeof createGzipPages>
