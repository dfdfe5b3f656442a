/** The first 64 bits of SHA-256, as two words: numbers of 64 bits would be an object each. */
import { hash } from 'node:crypto'

function word(digest: string, at: number): number {
  return (
    ((digest.charCodeAt(at) << 24) |
      (digest.charCodeAt(at + 1) << 16) |
      (digest.charCodeAt(at + 2) << 8) |
      digest.charCodeAt(at + 3)) >>>
    0
  )
}

/** The `index`th digest in `words`, which are a BigUint64Array's: its low word comes first. */
export function putDigest(words: Uint32Array, index: number, of: Uint8Array | string): void {
  const digest = hash('sha256', of, 'binary')
  words[index * 2] = word(digest, 4)
  words[index * 2 + 1] = word(digest, 0)
}

/** The words of digests: a view, not a copy. */
export function wordsOf(digests: BigUint64Array): Uint32Array {
  return new Uint32Array(digests.buffer, digests.byteOffset, digests.length * 2)
}

/** One digest alone. */
export function digestOf(of: Uint8Array | string): bigint {
  const digest = new BigUint64Array(1)
  putDigest(wordsOf(digest), 0, of)
  return digest[0] as bigint
}
