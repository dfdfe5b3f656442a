/** SHA-256 as this room uses it: short words for columns, text for tokens. */
import { type BinaryLike, hash } from 'node:crypto'

/** The first 128 bits, as numbers that fit a column. */
export function digestWords(content: Uint8Array | string): readonly number[] {
  const bytes = hash('sha256', content, 'buffer')
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4), bytes.readUInt32LE(8), bytes.readUInt32LE(12)]
}

/** 128 bits for a token: nobody finds two contents with one. */
export function digestText(content: NodeJS.ArrayBufferView | string): string {
  return hash('sha256', content as BinaryLike, 'base64url').slice(0, 22)
}
