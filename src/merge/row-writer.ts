/**
 * Rows as one reader gets them, made of pieces of published rows. A published row is our own JSON with a known order of
 * members (merge/row.ts), so what is left out or added is found by one pass over its bytes; the rest is copied. Parsing a
 * row and writing it again would cost ten times as much (docs/performance.md).
 */
import { bufferOf, endOfString, endOfValue } from '../adcp/json.js'
import { nameHash, step } from '../upstreams/rows/written.js'
import { published } from './published.js'

/** What a reader gets of a row. Deployments are named by their place in the row. */
type RowChoice = {
  /** The optional fields that are left out (`unasked`). */
  without: ReadonlySet<number>
  /** Whether a deployment is shown, and whether an offer names this destination; undefined: all are. */
  destinations?: { shows(order: number): boolean; names(key: string): boolean } | undefined
  /** The activation key of a deployment, as JSON; undefined where there is none to show. */
  keyOf?: ((order: number) => Piece | undefined) | undefined
}

/** Where a piece of JSON stands. */
export type Piece = { readonly from: Uint8Array; readonly start: number; readonly end: number }

const [QUOTE, COMMA, CLOSE_BRACE, CLOSE_BRACKET] = [0x22, 0x2c, 0x7d, 0x5d]
const KEY = Buffer.from(',"activation_key":')
const BEFORE_OFFERS = '{"tributary":{"offers":['.length
const SHORT = 24 // up to this many bytes, a loop is faster than a copy through a view
const FULL = 0.75 // a buffer of which this part is used is kept as it is

const PROJECTED = Object.keys(published).map((name) => [name, nameHash(name)] as const)
const DEPLOYMENTS = nameHash('deployments')
const EXT = nameHash('ext')

const NOTHING: ReadonlySet<number> = new Set()

/** What is left out where only these optional fields are asked for; undefined: everything is. */
export function unasked(fields: readonly string[] | undefined): ReadonlySet<number> {
  if (!fields) return NOTHING
  return new Set(PROJECTED.flatMap(([name, hash]) => (fields.includes(name) ? [] : [hash])))
}

/** `bytes`: a guess of the size of all rows. */
export function createRowWriter(bytes: number) {
  let written = Buffer.allocUnsafeSlow(Math.max(1_024, bytes))
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
  function deployments(members: Uint8Array, open: number, { destinations, keyOf }: RowChoice): number {
    let count = 0
    let at = open + 1
    for (let order = 0; members[at] !== CLOSE_BRACKET; order += 1) {
      const end = endOfValue(members, at)
      if (!destinations || destinations.shows(order)) {
        if (count++ > 0) byte(COMMA)
        const key = keyOf?.(order)
        copy(members, at, key === undefined ? end : end - 1)
        if (key !== undefined) {
          copy(KEY, 0, KEY.byteLength)
          copy(key.from, key.start, key.end)
          byte(CLOSE_BRACE)
        }
      }
      at = members[end] === COMMA ? end + 1 : end
    }
    return at
  }

  /** The destinations that an offer names in the list that opens at `open`; gives the index of its closing bracket. */
  function named(members: Uint8Array, open: number, isShown: (key: string) => boolean): number {
    let count = 0
    let at = open + 1
    while (members[at] !== CLOSE_BRACKET) {
      const end = endOfString(members, at)
      const json = bufferOf(members).toString('utf8', at, end)
      const key = json.includes('\\') ? (JSON.parse(json) as string) : json.slice(1, -1)
      if (isShown(key)) {
        if (count++ > 0) byte(COMMA)
        copy(members, at, end)
      }
      at = members[end] === COMMA ? end + 1 : end
    }
    return at
  }

  /**
   * Writes the offers of the list that opens at `open`, without the destinations that are not shown. Everything before
   * `from` is written already; gives the index up to which everything is written afterwards.
   */
  function offers(
    members: Uint8Array,
    open: number,
    from: number,
    isShown: (key: string) => boolean,
  ): number {
    let done = from
    for (let at = open; members[at] !== CLOSE_BRACKET; ) {
      for (at += 1; members[at - 1] !== CLOSE_BRACE; at += 1) {
        let hash = 0
        for (at += 1; members[at] !== QUOTE; at += 1) hash = step(hash, members[at] as number)
        const value = at + 2
        if (hash === DEPLOYMENTS) {
          copy(members, done, value + 1)
          done = named(members, value, isShown)
          at = done + 1
        } else at = endOfValue(members, value)
      }
      if (members[at] === COMMA) at += 1
    }
    return done
  }

  return {
    /** Adds one row and closes it. `members`: a row without its closing brace, with its prices or without them. */
    add(members: Uint8Array, choice: RowChoice): void {
      const { without, destinations, keyOf } = choice
      let from = 0 // what is before it is written or left out
      for (let at = 1; at < members.byteLength; at += 1) {
        const start = at
        let hash = 0
        for (at += 1; members[at] !== QUOTE; at += 1) hash = step(hash, members[at] as number)
        const value = at + 2
        if (hash === EXT) {
          if (destinations) from = offers(members, value + BEFORE_OFFERS, from, destinations.names)
          break // after it there are only prices
        }
        if (hash !== DEPLOYMENTS) {
          at = endOfValue(members, value)
          if (!without.has(hash)) continue
          copy(members, from, start - 1) // the comma before it goes with it: the first member is always shown
          from = at
        } else if (destinations || keyOf) {
          copy(members, from, value + 1)
          from = deployments(members, value, choice)
          at = from + 1
        } else break // what follows is shown as it is
      }
      copy(members, from, members.byteLength)
      byte(CLOSE_BRACE)
    },
    comma: () => byte(COMMA),
    /** The rows so far, in memory of about their size. */
    written(): Uint8Array {
      const rows = written.subarray(0, length)
      return length > written.byteLength * FULL ? rows : Buffer.from(rows)
    },
  }
}

export type RowWriter = ReturnType<typeof createRowWriter>
