/**
 * Shared memory that rows are written into, one behind the other. Chunks start small and grow, so that a small build
 * takes little; only the last one is copied to its size.
 */
const FIRST_CHUNK = 64 * 1024
const LAST_CHUNK = 8 * 1024 * 1024

type Place = { readonly chunk: number; readonly start: number }

export function createChunks() {
  const chunks: Uint8Array[] = []
  let current: Buffer | undefined
  let used = 0

  /** Where the next `bytes` go at most; `take` says how many of them were used. */
  function room(bytes: number): { buffer: Buffer; start: number } {
    if (current && used + bytes <= current.byteLength) return { buffer: current, start: used }
    if (current) chunks[chunks.length - 1] = current.subarray(0, used)
    const size = Math.max(bytes, Math.min(LAST_CHUNK, FIRST_CHUNK * 2 ** Math.min(chunks.length, 16)))
    current = Buffer.from(new SharedArrayBuffer(size))
    used = 0
    chunks.push(current)
    return { buffer: current, start: 0 }
  }

  function take(bytes: number): Place {
    const place = { chunk: chunks.length - 1, start: used }
    used += bytes
    return place
  }

  function finish(): readonly Uint8Array[] {
    if (!current) return []
    const last = new Uint8Array(new SharedArrayBuffer(used))
    last.set(current.subarray(0, used))
    return [...chunks.slice(0, -1), last]
  }

  return { room, take, finish }
}
