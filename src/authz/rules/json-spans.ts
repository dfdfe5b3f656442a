/**
 * Where the elements of a list begin and end in the bytes of a JSON object. A provider's file may define 50,000
 * signals: the position of each takes eight bytes, a parsed object takes a kilobyte. Expects bytes that `JSON.parse`
 * accepts.
 */
import { endOfString, endOfValue, skipSpace } from '../../adcp/json.js'

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

const decoder = new TextDecoder()

/** Skips a comma, if there is one, and the space after it. */
function next(bytes: Uint8Array, at: number): number {
  const i = skipSpace(bytes, at)
  return bytes[i] === COMMA ? skipSpace(bytes, i + 1) : i
}

/**
 * Where the member's value begins; -1 when there is none. Of duplicate members the last counts, as for `JSON.parse`.
 */
function findMember(bytes: Uint8Array, object: number, name: string): number {
  let found = -1
  let i = skipSpace(bytes, object + 1)
  while (bytes[i] === QUOTE) {
    const end = endOfString(bytes, i)
    const value = skipSpace(bytes, skipSpace(bytes, end) + 1)
    if (JSON.parse(decoder.decode(bytes.subarray(i, end))) === name) found = value
    i = next(bytes, endOfValue(bytes, value))
  }
  return found
}

/** Begin and end of each element of the list in member `name`; empty when there is no such list. */
export function elementSpans(bytes: Uint8Array, name: string): [begin: number, end: number][] {
  const marked = BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte)
  const object = skipSpace(bytes, marked ? BYTE_ORDER_MARK.length : 0)
  const list = bytes[object] === OPEN_OBJECT ? findMember(bytes, object, name) : -1
  const spans: [number, number][] = []
  if (list < 0 || bytes[list] !== OPEN_ARRAY) return spans
  for (let i = skipSpace(bytes, list + 1); bytes[i] !== CLOSE_ARRAY; ) {
    const end = endOfValue(bytes, i)
    spans.push([i, end])
    i = next(bytes, end)
  }
  return spans
}
