/**
 * The text of one value inside a JSON text. `context` is echoed byte for byte (docs/protocol.md#envelope), and
 * `JSON.parse` would rewrite it: 1.0 becomes 1, a long integer loses digits. All functions expect a text that
 * `JSON.parse` accepted.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

function skipSpace(text: string, at: number): number {
  let i = at
  while (text.charCodeAt(i) <= 0x20) i++
  return i
}

/** `at` is an opening quote; gives the index after the closing one. */
function skipString(text: string, at: number): number {
  let i = at + 1
  for (let code = text.charCodeAt(i); code !== QUOTE; code = text.charCodeAt(++i)) {
    if (code === BACKSLASH) i++
  }
  return i + 1
}

function isOpening(code: number): boolean {
  return code === OPEN_OBJECT || code === OPEN_ARRAY
}

function isClosing(code: number): boolean {
  return code === CLOSE_OBJECT || code === CLOSE_ARRAY
}

/** The index after the value that starts at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0
  for (let i = at; i < text.length; ) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      i = skipString(text, i)
      if (depth === 0) return i
      continue
    }
    if (isOpening(code)) depth++
    else if (isClosing(code)) {
      if (depth === 0) return i // the end of a number or word that was the last member
      if (--depth === 0) return i + 1
    } else if (depth === 0 && (code === COMMA || code <= 0x20)) return i
    i++
  }
  return text.length
}

/** Where the member's value starts, or -1. Of duplicate keys the last counts, as in `JSON.parse`. */
function findMember(text: string, object: number, name: string): number {
  let found = -1
  let i = skipSpace(text, object + 1)
  while (text.charCodeAt(i) === QUOTE) {
    const end = skipString(text, i)
    const key = JSON.parse(text.slice(i, end)) as string
    let value = skipSpace(text, end)
    if (text.charCodeAt(value) === COLON) value = skipSpace(text, value + 1)
    if (key === name) found = value
    i = skipSpace(text, skipValue(text, value))
    if (text.charCodeAt(i) === COMMA) i = skipSpace(text, i + 1)
  }
  return found
}

function findItem(text: string, array: number, index: number): number {
  let i = skipSpace(text, array + 1)
  for (let n = 0; i < text.length && text.charCodeAt(i) !== CLOSE_ARRAY; n++) {
    if (n === index) return i
    i = skipSpace(text, skipValue(text, i))
    if (text.charCodeAt(i) === COMMA) i = skipSpace(text, i + 1)
  }
  return -1
}

/** Where the text of the value at `path` stands; `end` is the index after it. Undefined when there is none. */
export function valueSpan(
  text: string,
  path: readonly (string | number)[],
): { start: number; end: number } | undefined {
  let at = skipSpace(text, 0)
  for (const step of path) {
    const code = text.charCodeAt(at)
    if (typeof step === 'string') at = code === OPEN_OBJECT ? findMember(text, at, step) : -1
    else at = code === OPEN_ARRAY ? findItem(text, at, step) : -1
    if (at < 0) return undefined
  }
  return { start: at, end: skipValue(text, at) }
}

/** The text of the value at `path`, or undefined when there is none. */
export function rawValue(text: string, path: readonly (string | number)[]): string | undefined {
  const span = valueSpan(text, path)
  return span && text.slice(span.start, span.end)
}
