/**
 * Collects the chunks of one body. Each chunk that is kept costs a hundred bytes more than its content, and a stranger
 * may send one byte per chunk, so small chunks are copied together.
 */
const FEW = 16 // this many small chunks are kept as they came
const SMALL_BYTES = 4 * 1024
const PAGE_BYTES = 64 * 1024

export type Gathering = {
  add(chunk: Uint8Array): void
  chunks(): readonly Uint8Array[]
}

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
