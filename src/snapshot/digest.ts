/** SHA-256 as this room uses it: short words for columns, text for tokens. */
import { type BinaryLike, createHash, hash } from 'node:crypto'

/** The first 128 bits, as numbers that fit a column. Text out of the hash costs a fifth of a Buffer out of it. */
export function digestWords(content: NodeJS.ArrayBufferView | string): readonly number[] {
  const text = hash('sha256', content as BinaryLike, 'binary')
  const word = (at: number) =>
    (text.charCodeAt(at) |
      (text.charCodeAt(at + 1) << 8) |
      (text.charCodeAt(at + 2) << 16) |
      (text.charCodeAt(at + 3) << 24)) >>>
    0
  return [word(0), word(4), word(8), word(12)]
}

/** 128 bits for a token: nobody finds two contents with one. */
export function digestText(content: NodeJS.ArrayBufferView | string): string {
  return hash('sha256', content as BinaryLike, 'base64url').slice(0, 22)
}

/** The same over content that comes in portions. */
export function createDigest() {
  const sum = createHash('sha256')
  return {
    update: (content: NodeJS.ArrayBufferView) => void sum.update(content),
    text: () => sum.digest('base64url').slice(0, 22),
  }
}
