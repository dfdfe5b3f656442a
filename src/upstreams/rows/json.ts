/**
 * Reading JSON that others wrote: measured before anything is allocated for it, parsed under bounds, looked at without
 * trust.
 */
import { isRecord } from '../../adcp/json.js'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const COLON = 0x3a
const COMMA = 0x2c
// What is parsed is later written again, and writing recurses: nested deeper than this, only an attack means it.
const MAX_DEPTH = 100
// Sixteen million elements of two bytes each took 1.7 GB of heap: what is parsed whole is bounded in values, not bytes.
const MAX_VALUES = 200_000

/** What a JSON text is made of, told from its bytes. Exact where the text is JSON, a bound where it is not. */
export type Measure = {
  /** How deep objects and arrays are nested in one another. */
  depth: number
  /** Scalars, objects and arrays. */
  values: number
  /** `"name":value` pairs, also those that a later one of the same name takes back. */
  members: number
  /** A string has an escape in it. */
  escaped: boolean
}

/** A text, cut; undefined when there is none. */
export function boundedText(value: unknown, length = 500): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, length) : undefined
}

/** A Buffer over the same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Index after the string that opens at `at`, or -1 when it never closes. */
export function endOfString(json: Uint8Array, at: number): number {
  const { length } = json
  for (let next = at + 1; next < length; next++) {
    const byte = json[next]
    if (byte === QUOTE) return next + 1
    if (byte === BACKSLASH) next += 1
  }
  return -1
}

/** One pass over the bytes; it allocates nothing. Strings, nearly all of a row, are passed in a loop of their own. */
export function measure(json: Uint8Array): Measure {
  const { length } = json
  let [depth, deepest, values, members] = [0, 0, 1, 0]
  let escaped = false
  for (let at = 0; at < length; at++) {
    const byte = json[at] as number
    if (byte === QUOTE) {
      for (at++; at < length && json[at] !== QUOTE; at++) {
        if (json[at] !== BACKSLASH) continue
        escaped = true
        at += 1
      }
    } else if (byte === COMMA) values += 1
    else if (byte === COLON) members += 1
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values += 1
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1
  }
  return { depth: deepest, values, members, escaped }
}

/** The members of all objects in a parsed value: fewer than were measured when a name stood twice in one of them. */
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

/** Throws a SyntaxError when it is not JSON, a RangeError when it is nested too deeply or holds too many values. */
export function parseJson(bytes: Uint8Array, maxValues = MAX_VALUES): unknown {
  const { depth, values } = measure(bytes)
  if (depth > MAX_DEPTH) throw new RangeError(`nested more than ${MAX_DEPTH} deep`)
  if (values > maxValues) throw new RangeError(`more than ${maxValues} values`)
  return JSON.parse(bufferOf(bytes).toString())
}

/** Undefined when it is not JSON, or more than a bound lets be read: an ordinary way for the other side to be wrong. */
export function tryParseJson(bytes: Uint8Array, maxValues?: number): unknown {
  try {
    return parseJson(bytes, maxValues)
  } catch {
    return undefined
  }
}
