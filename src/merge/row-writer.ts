/**
 * Rows as one reader gets them, made of pieces of published rows. A published row is our own JSON with a known order of
 * members, and it is known where the members begin that may be left out (merge/row.ts): only those bytes are looked at, and
 * the rest is copied. Parsing a row and writing it again takes 17 us (docs/decisions.md#serving-from-bytes).
 */
import { bufferOf, endOfString, endOfValue } from '../adcp/json.js'
import { createRecent } from '../process/memory.js'
import { nameHash, step } from '../upstreams/rows/written.js'
import { published } from './definition.js'
import type { RowPlaces } from './row.js'

/** The bytes of a row without its closing brace, with its prices or without them, somewhere in memory. */
export type RowBytes = Piece & { readonly places: RowPlaces }

/** What a reader gets of a row. Deployments are named by their place in the row. */
type RowChoice = {
  /** The optional fields that are left out (`unasked`). */
  without: ReadonlySet<number>
  /**
   * Whether a deployment is shown, of so many, and whether an offer names this destination; undefined: all are. What the
   * offers name are deployments of the row, in its order.
   */
  destinations?: { count: number; shows(order: number): boolean; names(key: string): boolean } | undefined
  /** The activation key of a deployment, as JSON; undefined where there is none to show. */
  keyOf?: ((order: number) => Piece | undefined) | undefined
}

/** Where a piece of JSON stands. */
export type Piece = { readonly from: Uint8Array; readonly start: number; readonly end: number }

const [QUOTE, COMMA, CLOSE_BRACE, CLOSE_BRACKET] = [0x22, 0x2c, 0x7d, 0x5d]
const KEY = Buffer.from(',"activation_key":')
const BEFORE_DEPLOYMENTS = ',"deployments":'.length
const BEFORE_OFFERS = ',"ext":{"tributary":{"offers":['.length
const SHORT = 16 // up to this many bytes, a loop is as fast as a copy through a view, which leaves garbage

const PROJECTED = Object.keys(published).map((name) => [name, nameHash(name)] as const)
const DEPLOYMENTS = nameHash('deployments')

const NOTHING: ReadonlySet<number> = new Set()

const unaskedBy = createRecent<ReadonlySet<number>>(1_000)

/** What is left out where only these optional fields are asked for; undefined: nothing is. */
export function unasked(fields: readonly string[] | undefined): ReadonlySet<number> {
  if (!fields) return NOTHING
  const name = fields.join()
  const known = unaskedBy.get(name)
  if (known) return known
  const made = new Set(PROJECTED.flatMap(([field, hash]) => (fields.includes(field) ? [] : [hash])))
  unaskedBy.set(name, made)
  return made
}

type Chosen = NonNullable<RowChoice['destinations']>

/** The string between the quotes at `start` and before `end`. */
function stringIn(from: Uint8Array, start: number, end: number): string {
  const json = bufferOf(from).toString('utf8', start, end)
  return json.includes('\\') ? (JSON.parse(json) as string) : json.slice(1, -1)
}

/** Writes into this memory, or into larger memory of its own when that is full. */
export function createRowWriter(memory: Buffer) {
  let written = memory
  let length = 0

  function makeRoom(more: number): void {
    if (length + more <= written.byteLength) return
    const larger = Buffer.allocUnsafeSlow(2 * (length + more))
    larger.set(written.subarray(0, length))
    written = larger
  }

  function copy(from: Uint8Array, start: number, end: number): void {
    makeRoom(end - start)
    if (end - start > SHORT) written.set(from.subarray(start, end), length)
    else for (let at = start; at < end; at += 1) written[length + at - start] = from[at] as number
    length += end - start
  }

  function byte(value: number): void {
    makeRoom(1)
    written[length++] = value
  }

  /** The deployments of the list that opens at `open`; gives the index of its closing bracket. */
  function deployments(from: Uint8Array, open: number, { destinations, keyOf }: RowChoice): number {
    let count = 0
    let at = open + 1
    for (let order = 0; from[at] !== CLOSE_BRACKET; order += 1) {
      const end = endOfValue(from, at)
      if (!destinations || destinations.shows(order)) {
        if (count++ > 0) byte(COMMA)
        const key = keyOf?.(order)
        copy(from, at, key === undefined ? end : end - 1)
        if (key !== undefined) {
          copy(KEY, 0, KEY.byteLength)
          copy(key.from, key.start, key.end)
          byte(CLOSE_BRACE)
        }
      }
      at = from[end] === COMMA ? end + 1 : end
    }
    return at
  }

  /** The destinations that an offer names in the list that opens at `open`; gives the index of its closing bracket. */
  function named(from: Uint8Array, open: number, { count, shows, names }: Chosen): number {
    const ends: number[] = []
    for (let at = open + 1; from[at] !== CLOSE_BRACKET; ) {
      const end = endOfString(from, at)
      ends.push(end)
      at = from[end] === COMMA ? end + 1 : end
    }
    const isWhole = ends.length === count // most offers are the only one of their signal
    let shown = 0
    let at = open + 1
    for (const [order, end] of ends.entries()) {
      if (isWhole ? shows(order) : names(stringIn(from, at, end))) {
        if (shown++ > 0) byte(COMMA)
        copy(from, at, end)
      }
      at = end + 1
    }
    return ends.at(-1) ?? open + 1
  }

  /** The offers from `open` on. What is before `done` is written; gives what is written afterwards. */
  function offers(from: Uint8Array, open: number, done: number, chosen: Chosen): number {
    let written = done
    for (let at = open; from[at] !== CLOSE_BRACKET; ) {
      for (at += 1; from[at - 1] !== CLOSE_BRACE; at += 1) {
        let hash = 0
        for (at += 1; from[at] !== QUOTE; at += 1) hash = step(hash, from[at] as number)
        const value = at + 2
        if (hash === DEPLOYMENTS) {
          copy(from, written, value + 1)
          written = named(from, value, chosen)
          at = written + 1
        } else at = endOfValue(from, value)
      }
      if (from[at] === COMMA) at += 1
    }
    return written
  }

  /** The members between the commas `first` and `last`, but for those left out. What is before `done` is written. */
  function fields(
    from: Uint8Array,
    first: number,
    last: number,
    done: number,
    without: RowChoice['without'],
  ): number {
    let written = done
    for (let at = first; at < last; ) {
      const comma = at
      let hash = 0
      for (at += 2; from[at] !== QUOTE; at += 1) hash = step(hash, from[at] as number)
      at = endOfValue(from, at + 2)
      if (!without.has(hash)) continue
      copy(from, written, comma)
      written = at
    }
    return written
  }

  return {
    /** Adds one row and closes it. */
    add({ from, start, end, places }: RowBytes, choice: RowChoice): void {
      const { without, destinations, keyOf } = choice
      const list = start + places.deployments
      let done = start // what is before it is written or left out
      if (without.size > 0)
        done = fields(from, start + places.fields, list - BEFORE_DEPLOYMENTS, done, without)
      if (destinations || keyOf) {
        copy(from, done, list + 1)
        done = deployments(from, list, choice)
        if (destinations) done = offers(from, done + 1 + BEFORE_OFFERS, done, destinations)
      }
      copy(from, done, end)
      byte(CLOSE_BRACE)
    },
    /** Adds bytes that are shown as they are. */
    copy,
    comma: () => byte(COMMA),
    /** The rows so far. */
    written: (): Buffer => written.subarray(0, length),
  }
}

export type RowWriter = ReturnType<typeof createRowWriter>
