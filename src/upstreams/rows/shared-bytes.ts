/** Bytes of typed arrays, for storages, and typed arrays' memory back from what a storage read. */

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
