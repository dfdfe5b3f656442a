/**
 * The memory of a process, within bounds: the entries that were used last, by name; numbers of objects, as long as they exist, by
 * which another thread recognises them; memory lent for bytes that leave at once; and the chunks in which a stranger sends his
 * bytes, however small.
 */
import { LRUCache } from 'lru-cache'

const FEW = 16 // this many small chunks of a body are kept as they came; of more, pages are made
const SMALL_BYTES = 4 * 1024
const PAGE_BYTES = 64 * 1024
const LENT_STEP = 32 * 1024 // sizes of lent memory are multiples of it
const MOST_LENT = 512 * 1024 // larger memory is rare, and is not lent
const MOST_IDLE = 8 * 1024 * 1024 // to be lent again

export type Recent<V extends NonNullable<unknown>> = LRUCache<string, V>

/**
 * Empty, for `most` entries: one more drops the one whose last use is longest ago. It takes the memory of those it holds,
 * where `LRUCache({ max })` takes that of all when it is made: most of what is bounded by thousands stays nearly empty.
 */
export function createRecent<V extends NonNullable<unknown>>(most: number): Recent<V> {
  return new LRUCache<string, V>({ maxSize: most, sizeCalculation: () => 1 })
}

/** Gives each object a number of its own, the same as long as the object exists. */
export function createNumbers(): (of: object) => number {
  const numbers = new WeakMap<object, number>()
  let last = 0
  return (of) => {
    const known = numbers.get(of)
    if (known !== undefined) return known
    last += 1
    numbers.set(of, last)
    return last
  }
}

/**
 * Shared memory that is posted becomes a new object on the other side, whoever sent it before, and what is known of it by its object,
 * such as the names under which it is stored, would be forgotten each time. So the worker numbers its views (`createNumbers`), and
 * the host goes on with those that it has: this gives for each view in turn the one that came first under its number.
 */
export function createHeldMemory() {
  const held = new Map<number, WeakRef<object>>()

  return (numbers: readonly number[]) => {
    for (const [number, view] of held) if (!view.deref()) held.delete(number)
    let at = 0
    return <View extends object>(view: View): View => {
      const number = numbers[at++] as number
      const known = held.get(number)?.deref()
      if (known) return known as View
      held.set(number, new WeakRef(view))
      return view
    }
  }
}

/** Lent before and to be lent again, by size. */
const idle = new Map<number, Buffer[]>()
let idleBytes = 0
const lent = new WeakMap<ArrayBufferLike, Buffer>()

/**
 * Memory of at least so many bytes, with whatever stood in it; for one answer, until it is given back. An answer that nobody keeps
 * is written into it, and an agent's answer lies in it until its rows are copied to where they stay. New memory for each such
 * answer costs more than filling it: the system hands it out page by page, and memory outside of the heap makes the collector go
 * through the whole heap (docs/decisions.md#serving-from-bytes). Whoever keeps such an answer copies it, and nothing is
 * remembered by an address in this memory. What is never given back is garbage like any other.
 */
export function lend(bytes: number): Buffer {
  if (bytes > MOST_LENT) return Buffer.allocUnsafeSlow(bytes)
  const size = Math.ceil(bytes / LENT_STEP) * LENT_STEP
  const found = idle.get(size)?.pop()
  if (found) idleBytes -= size
  const memory = found ?? Buffer.allocUnsafeSlow(size)
  lent.set(memory.buffer, memory)
  return memory
}

/** Whether these bytes are in lent memory, so that others will soon stand there. */
export function isLent({ buffer }: Uint8Array): boolean {
  return lent.has(buffer)
}

/** This memory is nobody's now, to be lent again. */
function keepIdle(memory: Buffer): void {
  if (idleBytes + memory.byteLength > MOST_IDLE) {
    idle.clear() // of sizes that are no longer asked for, perhaps
    idleBytes = 0
  }
  const ofSize = idle.get(memory.byteLength) ?? []
  idle.set(memory.byteLength, ofSize)
  ofSize.push(memory)
  idleBytes += memory.byteLength
}

/** These bytes have left: nobody reads them any more. Bytes that are not in lent memory are ignored. */
export function giveBack({ buffer }: Uint8Array): void {
  const memory = lent.get(buffer)
  if (!memory) return
  lent.delete(buffer)
  keepIdle(memory)
}

/**
 * Gives back what was lent and went to another thread, for it came back as other memory than was lent. Only for who knows that
 * nobody else reads anything in the memory that these bytes lie in. Memory of other sizes is ignored.
 */
export function giveBackMoved({ buffer }: Uint8Array): void {
  const { byteLength } = buffer
  const isOfOurs = buffer instanceof ArrayBuffer && byteLength % LENT_STEP === 0
  if (isOfOurs && byteLength > 0 && byteLength <= MOST_LENT) keepIdle(Buffer.from(buffer))
}

type Gathering = {
  add(chunk: Uint8Array): void
  chunks(): readonly Uint8Array[]
}

/**
 * Collects the chunks of one body. Each chunk that is kept costs a hundred bytes more than its content, and a stranger
 * may send one byte per chunk, so small chunks are copied together.
 */
export function createGathering(): Gathering {
  const chunks: Uint8Array[] = []
  let small = 0
  let page: Uint8Array | undefined // the last of `chunks`, while it has room
  let used = 0

  /** Keeps the bytes on the page as its last chunk. */
  function show(): void {
    if (page) chunks[chunks.length - 1] = page.subarray(0, used)
  }

  return {
    add(chunk) {
      if (chunk.byteLength >= SMALL_BYTES || small < FEW) {
        show()
        page = undefined
        small = chunk.byteLength < SMALL_BYTES ? small + 1 : small
        chunks.push(chunk)
        return
      }
      if (!page || used + chunk.byteLength > PAGE_BYTES) {
        show()
        page = Buffer.allocUnsafeSlow(PAGE_BYTES)
        used = 0
        chunks.push(page)
      }
      page.set(chunk, used)
      used += chunk.byteLength
    },
    chunks() {
      show()
      return chunks
    },
  }
}
