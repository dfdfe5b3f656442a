/**
 * Where the elements of a list begin and end in the bytes of a JSON object. A provider's file may define 50,000 signals: knowing
 * where each stands costs eight bytes, keeping each as an object costs a kilobyte. Expects bytes that `JSON.parse` accepts.
 */
const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

const decoder = new TextDecoder()

function skipSpace(bytes: Uint8Array, at: number): number {
  let i = at
  while ((bytes[i] as number) <= 0x20) i += 1
  return i
}

/** `at` is an opening quote; gives the index after the closing one. */
function skipString(bytes: Uint8Array, at: number): number {
  let i = at + 1
  for (; bytes[i] !== QUOTE; i += 1) if (bytes[i] === BACKSLASH) i += 1
  return i + 1
}

/** The index after the value that begins at `at`. */
function skipValue(bytes: Uint8Array, at: number): number {
  if (bytes[at] === QUOTE) return skipString(bytes, at)
  let depth = 0
  for (let i = at; i < bytes.length; ) {
    const byte = bytes[i] as number
    if (byte === QUOTE) {
      i = skipString(bytes, i)
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      if (depth === 0) return i // the end of a number or word that was the last in its list
      depth -= 1
      if (depth === 0) return i + 1
    } else if (depth === 0 && (byte === COMMA || byte <= 0x20)) return i
    i += 1
  }
  return bytes.length
}

/** Steps over a comma, if there is one, to what comes next. */
function next(bytes: Uint8Array, at: number): number {
  const i = skipSpace(bytes, at)
  return bytes[i] === COMMA ? skipSpace(bytes, i + 1) : i
}

/** Where the member's value begins; -1 without it. Of duplicate members the last counts, as for `JSON.parse`. */
function findMember(bytes: Uint8Array, object: number, name: string): number {
  let found = -1
  let i = skipSpace(bytes, object + 1)
  while (bytes[i] === QUOTE) {
    const end = skipString(bytes, i)
    const value = skipSpace(bytes, skipSpace(bytes, end) + 1)
    if (JSON.parse(decoder.decode(bytes.subarray(i, end))) === name) found = value
    i = next(bytes, skipValue(bytes, value))
  }
  return found
}

/** Begin and end of each element of the list that is the member `name` of the object; empty when there is no such list. */
export function elementSpans(bytes: Uint8Array, name: string): [begin: number, end: number][] {
  const marked = BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte)
  const object = skipSpace(bytes, marked ? BYTE_ORDER_MARK.length : 0)
  const list = bytes[object] === OPEN_OBJECT ? findMember(bytes, object, name) : -1
  const spans: [number, number][] = []
  if (list < 0 || bytes[list] !== OPEN_ARRAY) return spans
  for (let i = skipSpace(bytes, list + 1); bytes[i] !== CLOSE_ARRAY; ) {
    const end = skipValue(bytes, i)
    spans.push([i, end])
    i = next(bytes, end)
  }
  return spans
}
