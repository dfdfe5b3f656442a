/** Reading JSON that others wrote: parsed under a bound on nesting, looked at without trust. */

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
// What is parsed is later written again, and writing recurses: nested deeper than this, only an attack means it.
const MAX_DEPTH = 100

/** A text, cut; undefined when there is none. */
export function boundedText(value: unknown, length = 500): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, length) : undefined
}

/** A Buffer over the same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Index after the string that opens at `at`, or -1 when it never closes. */
export function endOfString(json: Buffer, at: number): number {
  for (let quote = json.indexOf(QUOTE, at + 1); quote !== -1; quote = json.indexOf(QUOTE, quote + 1)) {
    let slashes = 0
    while (json[quote - 1 - slashes] === BACKSLASH) slashes += 1
    if (slashes % 2 === 0) return quote + 1
  }
  return -1
}

function isTooDeep(json: Buffer): boolean {
  let depth = 0
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === QUOTE) {
      at = endOfString(json, at) - 1
      if (at < 0) return false // the parser will say what is wrong
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1
      if (depth > MAX_DEPTH) return true
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1
  }
  return false
}

/** Throws a SyntaxError when it is not JSON, or nested too deeply. */
export function parseJson(bytes: Uint8Array): unknown {
  const json = bufferOf(bytes)
  if (isTooDeep(json)) throw new SyntaxError('nested too deeply')
  return JSON.parse(json.toString())
}

/** Undefined when it is not JSON: an ordinary way for the other side to be wrong. */
export function tryParseJson(bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes)
  } catch {
    return undefined
  }
}
