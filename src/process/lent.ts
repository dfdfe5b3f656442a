/**
 * Memory for bytes that leave at once: an answer that nobody keeps is written into it, and when it has left, the next one is;
 * and so is an agent's answer until its rows are copied to where they stay. New memory for each such answer costs more than
 * filling it: the system hands it out page by page, and memory outside of the heap makes the collector go through the whole
 * heap (docs/performance.md). Whoever keeps such an answer copies it, and nothing is remembered by an address in this memory.
 * What is never given back is garbage like any other.
 */
const STEP = 32 * 1024 // sizes are multiples of it
const MOST = 512 * 1024 // larger memory is rare, and is not lent
const MOST_IDLE = 8 * 1024 * 1024

/** By size. */
const idle = new Map<number, Buffer[]>()
let idleBytes = 0
const lent = new WeakMap<ArrayBufferLike, Buffer>()

/** Memory of at least so many bytes, with whatever stood in it; for one answer, until it is given back. */
export function lend(bytes: number): Buffer {
  if (bytes > MOST) return Buffer.allocUnsafeSlow(bytes)
  const size = Math.ceil(bytes / STEP) * STEP
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
  const isOfOurs = buffer instanceof ArrayBuffer && byteLength % STEP === 0
  if (isOfOurs && byteLength > 0 && byteLength <= MOST) keepIdle(Buffer.from(buffer))
}
