/**
 * JSON that others wrote: its bytes are measured before anything is allocated for it, one value is found in them without the
 * others, it is parsed within bounds, and the parsed value is read without trusting its shape.
 */

// What walks over the bytes of a JSON text before, or instead of, parsing it allocates nothing.
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]
const SPACE = 0x20 // and every byte below it is treated as white space here

/**
 * Counts of what a JSON text contains, taken from its bytes. Exact for valid JSON, an upper bound for anything else.
 */
type Measure = {
  /** The depth of nesting of objects and arrays. */
  depth: number
  /** Objects and arrays. */
  containers: number
  /** Scalars, objects and arrays. */
  values: number
  /** `"name":value` pairs, including those that a later duplicate of the same name replaces. */
  members: number
  /** Whether any string contains an escape. */
  escaped: boolean
}

/** One pass over the bytes. Strings make up most of a row, so a tight inner loop skips them. */
export function measure(json: Uint8Array): Measure {
  const { length } = json
  let [depth, deepest, containers, commas, members] = [0, 0, 0, 0, 0]
  let escaped = false
  for (let at = 0; at < length; at++) {
    const byte = json[at] as number
    if (byte === QUOTE) {
      for (at++; at < length && json[at] !== QUOTE; at++) {
        if (json[at] !== BACKSLASH) continue
        escaped = true
        at += 1
      }
    } else if (byte === COMMA) commas += 1
    else if (byte === COLON) members += 1
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      containers += 1
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1
  }
  return { depth: deepest, containers, values: 1 + commas + containers, members, escaped }
}

/** Index of the first byte from `at` on that is not white space. */
export function skipSpace(json: Uint8Array, at: number): number {
  let next = at
  while ((json[next] as number) <= SPACE) next += 1
  return next
}

const FEW_BYTES = 32 // a loop over so many is faster than a call that searches

/** Index after the string that opens at `at`, or -1 when it never closes. */
export function endOfString(json: Uint8Array, at: number): number {
  const { length } = json
  const near = Math.min(length, at + FEW_BYTES)
  let next = at + 1
  for (; next < near; next++) {
    const byte = json[next]
    if (byte === QUOTE) return next + 1
    if (byte === BACKSLASH) next += 1
  }
  for (let quote = json.indexOf(QUOTE, next); quote >= 0; quote = json.indexOf(QUOTE, quote + 1)) {
    let text = quote // the end of what is before the backslashes
    while (text > next && json[text - 1] === BACKSLASH) text -= 1
    if ((quote - text) % 2 === 0) return quote + 1
  }
  return -1
}

/** Index after the value that begins at `at`, in bytes that `JSON.parse` accepts; their end for a value that has none. */
export function endOfValue(json: Uint8Array, at: number): number {
  let depth = 0
  for (let next = at; next < json.length; ) {
    const byte = json[next] as number
    if (byte === QUOTE) {
      next = endOfString(json, next)
      if (next < 0) return json.length
      if (depth === 0) return next
      continue
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 0) return next // the end of a number or word that was the last in its list
      depth -= 1
      if (depth === 0) return next + 1
    } else if (depth === 0 && (byte === COMMA || byte <= SPACE)) return next
    next += 1
  }
  return json.length
}

/** Where a value stands in the bytes of a JSON text: its first byte, and the index after its last. */
type Span = [begin: number, end: number]
/** Names of members, and places in lists. */
type Path = readonly (string | number)[]

/** Index of the next value or name after the value that ends at `at`; that of a closing bracket when there is none. */
function nextAfter(json: Uint8Array, at: number): number {
  const next = skipSpace(json, at)
  return json[next] === COMMA ? skipSpace(json, next + 1) : next
}

/** Where each element of the list at `list` stands. */
function* spansIn(json: Uint8Array, list: number): Generator<Span> {
  for (let at = skipSpace(json, list + 1); at < json.length && json[at] !== CLOSE_BRACKET; ) {
    const end = endOfValue(json, at)
    yield [at, end]
    at = nextAfter(json, end)
  }
}

/** Whether the string from `at` to `end` says `name`, however it is spelled. */
function says(json: Uint8Array, at: number, end: number, name: string): boolean {
  if (end - at - 2 < name.length) return false // a character takes a byte at least
  const text = bufferOf(json).toString('utf8', at, end)
  return text === `"${name}"` || (text.includes('\\') && JSON.parse(text) === name)
}

/** Where the value at a path stands, if it is there, and the index after the value that the path begins at. */
type Located = { found?: Span | undefined; end: number }

/** Of duplicate members the last counts, as for `JSON.parse`. */
function locateInObject(json: Uint8Array, object: number, [name = '', ...rest]: Path): Located {
  let found: Span | undefined
  let at = skipSpace(json, object + 1)
  while (json[at] === QUOTE) {
    const end = endOfString(json, at)
    const value = skipSpace(json, skipSpace(json, end) + 1)
    const isNamed = typeof name === 'string' && says(json, at, end, name)
    const member = isNamed ? locate(json, value, rest) : { end: endOfValue(json, value) }
    if (isNamed) found = member.found
    at = nextAfter(json, member.end)
  }
  return { found, end: at + 1 }
}

function locateInList(json: Uint8Array, list: number, [index, ...rest]: Path): Located {
  let found: Span | undefined
  let at = skipSpace(json, list + 1)
  for (let number = 0; at < json.length && json[at] !== CLOSE_BRACKET; number += 1) {
    const element = number === index ? locate(json, at, rest) : { end: endOfValue(json, at) }
    if (number === index) found = element.found
    at = nextAfter(json, element.end)
  }
  return { found, end: at + 1 }
}

/** Looks at each byte once, however deep the path is: what stands at its end may be all of the text. */
function locate(json: Uint8Array, at: number, path: Path): Located {
  if (path.length > 0 && json[at] === OPEN_BRACE) return locateInObject(json, at, path)
  if (path.length > 0 && json[at] === OPEN_BRACKET) return locateInList(json, at, path)
  const end = endOfValue(json, at)
  return { found: path.length === 0 ? [at, end] : undefined, end }
}

/**
 * Where the value at `path` stands; undefined when there is none. Expects bytes that `JSON.parse` accepts; a byte order mark
 * before them is skipped.
 */
export function valueSpan(json: Uint8Array, path: Path): Span | undefined {
  const at = skipSpace(json, json[0] === BYTE_ORDER_MARK[0] ? BYTE_ORDER_MARK.length : 0)
  return locate(json, at, path).found
}

/** Where each element of the list at `path` stands; empty when there is no such list. Of the same bytes. */
export function elementSpans(json: Uint8Array, path: Path): Span[] {
  const [at] = valueSpan(json, path) ?? []
  return at !== undefined && json[at] === OPEN_BRACKET ? [...spansIn(json, at)] : []
}

/** Whether the value is an object with members, as opposed to null, an array or a scalar. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// A parsed value is written again later, and writing recurses: only an attack nests deeper than this.
const MAX_DEPTH = 100
// Sixteen million elements of two bytes each took 1.7 GB of heap: the bound on a whole parse counts values, not bytes.
const MAX_VALUES = 200_000

/** The value as a text, cut to a length; undefined when it is not a text. */
export function boundedText(value: unknown, length = 500): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, length) : undefined
}

/**
 * The text that a value is, or that a number is written as; undefined for anything else, because an object with a member
 * `toString` cannot be converted.
 */
export function scalarText(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' ? value : undefined
}

/** A Buffer over the same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * The number of members of all objects in a parsed value. It is lower than the measured number when an object has a
 * duplicate name.
 */
export function countMembers(value: unknown): number {
  if (Array.isArray(value)) {
    let count = 0
    for (const each of value) if (typeof each === 'object') count += countMembers(each)
    return count
  }
  if (!isRecord(value)) return 0
  const names = Object.keys(value)
  let count = names.length
  for (const name of names) {
    const held = value[name]
    if (typeof held === 'object') count += countMembers(held)
  }
  return count
}

/** Whether a value that was parsed without a bound is nested as little as one of `parseJson`. */
export function isShallow(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((each) => isShallow(each, levels - 1))
}

/** Throws a SyntaxError when it is not JSON, a RangeError when it is nested too deeply or holds too many values. */
export function parseJson(bytes: Uint8Array, maxValues = MAX_VALUES): unknown {
  const { depth, values } = measure(bytes)
  if (depth > MAX_DEPTH) throw new RangeError(`nested more than ${MAX_DEPTH} deep`)
  if (values > maxValues) throw new RangeError(`more than ${maxValues} values`)
  return JSON.parse(bufferOf(bytes).toString())
}

/**
 * Undefined when the text is not JSON or exceeds a bound. This is a value and not an exception, because others send
 * such texts every day.
 */
export function tryParseJson(bytes: Uint8Array, maxValues?: number): unknown {
  try {
    return parseJson(bytes, maxValues)
  } catch {
    return undefined
  }
}
