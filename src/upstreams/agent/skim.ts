/**
 * Reads a JSON message without building its rows: the elements of its one `"signals": [...]` array are given as byte
 * ranges, and the rest is parsed with that array left empty. A page of rows is nearly all rows; each is read alone, so that
 * one bad row costs one row. Rows that can be kept as they came are read on the way, which also finds where they end; for the
 * others that is found here, and they are parsed later.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf, endOfString, parseJson, skipSpace, tryParseJson } from '../../adcp/json.js'
import { createKnownTexts, wholeMemory } from '../../process/remembered.js'
import { createPlainRows, type PlainRows } from '../rows/plain-row.js'

const MAX_ROWS = 100_000 // of one array: agents that do not paginate send everything at once
const NEAR = 32 // a string that ends within so many bytes is found sooner by looking at them than by asking for its end
const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const COMMA = 0x2c
const COLON = 0x3a
const SPACE = 0x20 // and whatever sorts below it counts as white space here

const KEY = Buffer.from('"signals"')
/** Stands where rows were cut out; no agent sends it by chance. */
const CUT = 'tributary:rows-cut-here'
const CUT_JSON = Buffer.from(JSON.stringify(CUT))

/** Lists in rows, which come again and again: their ends are known. */
const lists = createKnownTexts()

export type Skimmed = {
  /** In its memory the rows lie. */
  message: Uint8Array
  /** The message; its cut array is recognised by `isCut`. */
  value: unknown
  rows: readonly Uint8Array[]
  /** Those of them that were read on the way; undefined when none was tried. */
  plain?: PlainRows | undefined
  /** The message parsed with nothing cut, for when the array found was not the one wanted; undefined when it is broken. */
  whole(): unknown
}

type Cut = { from: number; to: number; rows: Uint8Array[]; plain?: PlainRows | undefined }

/** Whether a value stands for rows that were cut out. */
export function isCut(value: unknown): boolean {
  return Array.isArray(value) && value[0] === CUT
}

/** Index of the first byte after the next `"signals"` key with an array behind it: the array's bracket; or -1. */
function findArray(bytes: Buffer, from: number): number {
  for (let key = bytes.indexOf(KEY, from); key !== -1; key = bytes.indexOf(KEY, key + 1)) {
    const colon = skipSpace(bytes, key + KEY.length)
    if (bytes[colon] !== COLON) continue
    const bracket = skipSpace(bytes, colon + 1)
    if (bytes[bracket] === OPEN_BRACKET) return bracket
  }
  return -1
}

/** Index after the string that opens at `at`, or -1 when it never closes; no escapes stand in the bytes. */
function endOfPlainString(bytes: Buffer, at: number): number {
  const near = Math.min(at + NEAR, bytes.length)
  for (let next = at + 1; next < near; next += 1) if (bytes[next] === QUOTE) return next + 1
  return bytes.indexOf(QUOTE, near) + 1 || -1
}

/**
 * Splits the array that opens at `bracket`; undefined when it never closes. Throws a RangeError beyond `MAX_ROWS`. `rowBytes`: up to
 * which rows are read on the way, where none has an escape.
 */
function splitArray(bytes: Buffer, bracket: number, rowBytes?: number): Cut | undefined {
  const rows: Uint8Array[] = []
  const memory = wholeMemory(bytes)
  const place = bytes.byteOffset
  let list = -1 // where a row's own list begins that is walked through
  const isPlain = bytes.indexOf(BACKSLASH, bracket) === -1
  const endOf = isPlain ? endOfPlainString : endOfString
  const plain = isPlain && rowBytes && isUtf8(bytes) ? createPlainRows(bytes, rowBytes) : undefined
  let depth = 0
  let start = -1
  let end = -1 // after the row's closing bracket: white space behind it is not the row's
  for (let at = bracket + 1; at < bytes.length; at++) {
    const byte = bytes[at] as number
    if (byte === QUOTE) {
      if (start === -1) start = at
      at = endOf(bytes, at) - 1
      if (at < 0) return undefined
      if (depth === 0 && end > start) end = at + 1
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (start === -1) {
        start = at
        const rowEnd = plain?.endOf(at) ?? 0
        if (rowEnd > 0) {
          end = rowEnd
          at = rowEnd - 1
          continue
        }
      }
      if (depth === 1 && byte === OPEN_BRACKET) {
        const known = lists.endOf(memory, place + at, place + bytes.length)
        if (known > 0) {
          at = known - place - 1
          continue
        }
        list = at
      }
      depth += 1
    } else if (depth > 0) {
      if (byte !== CLOSE_BRACE && byte !== CLOSE_BRACKET) continue
      depth -= 1
      end = at + 1
      if (depth === 1 && list > start) {
        lists.keep(memory, place + list, place + end)
        list = -1
      }
    } else if (byte === COMMA || byte === CLOSE_BRACKET) {
      if (start !== -1) {
        if (rows.length === MAX_ROWS) throw new RangeError(`more than ${MAX_ROWS} rows in one answer`)
        rows.push(bytes.subarray(start, end > start ? end : at))
      }
      if (byte === CLOSE_BRACKET) return { from: bracket + 1, to: at, rows, plain }
      start = -1
    } else if (byte > SPACE) {
      if (start === -1) start = at
      else if (end > start) end = at + 1 // no JSON: the row takes it along and is refused for it
    }
  }
  return undefined
}

/** The one array of signals in the message; undefined when there is none or more than one to choose from. */
function findCut(bytes: Buffer, rowBytes?: number): Cut | undefined {
  const bracket = findArray(bytes, 0)
  if (bracket === -1) return undefined
  const cut = splitArray(bytes, bracket, rowBytes)
  return cut && findArray(bytes, cut.to) === -1 ? cut : undefined
}

/**
 * Throws a SyntaxError when the message is not JSON, a RangeError when it holds more than may be read. A row that is
 * not JSON is found when it is read. `rowBytes`: up to which rows are read on the way. Default: none is.
 */
export function skim(message: Uint8Array, rowBytes?: number): Skimmed {
  const bytes = bufferOf(message)
  const whole = () => tryParseJson(bytes)
  const cut = findCut(bytes, rowBytes)
  if (!cut) return { message, value: parseJson(bytes), rows: [], whole }
  const skeleton = Buffer.concat([bytes.subarray(0, cut.from), CUT_JSON, bytes.subarray(cut.to)])
  return { message, value: parseJson(skeleton), rows: cut.rows, plain: cut.plain, whole }
}
