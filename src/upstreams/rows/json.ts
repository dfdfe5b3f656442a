/**
 * Reading JSON that others wrote: measured before anything is allocated for it, parsed under bounds, looked at without
 * trust.
 */
import { isRecord } from '../../adcp/json.js'
import { measure } from '../../adcp/json-bytes.js'

// What is parsed is later written again, and writing recurses: nested deeper than this, only an attack means it.
const MAX_DEPTH = 100
// Sixteen million elements of two bytes each took 1.7 GB of heap: what is parsed whole is bounded in values, not bytes.
const MAX_VALUES = 200_000

/** A text, cut; undefined when there is none. */
export function boundedText(value: unknown, length = 500): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, length) : undefined
}

/** A Buffer over the same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
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
