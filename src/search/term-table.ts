/**
 * Terms with their postings in shared typed arrays: built once, posted to another thread without a copy, and searched
 * directly. A Map of strings would take 195 bytes per term (docs/decisions.md#memory-and-threads).
 */

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const FIRST_SIZE = 1 << 16

/** The terms sorted by their bytes; postings of one term ascend by row. */
export type TermTable = {
  readonly count: number
  /** All terms, one after the other; term i is bytes `textAt[i]` to `textAt[i + 1]`. */
  readonly text: Uint8Array
  readonly textAt: Uint32Array
  /** Postings of term i are `postingAt[i]` to `postingAt[i + 1]`. */
  readonly postingAt: Uint32Array
  readonly rows: Uint32Array
  /** The weight of the term in the row, 1 to 65535; never 0, because a score of 0 means that a row was not found yet. */
  readonly impact: Uint16Array
  /** The highest impact of each term in any row. */
  readonly peak: Uint16Array
}

const shared = (bytes: number) => new SharedArrayBuffer(bytes)

/** The term with this number. */
export function termText(table: TermTable, term: number): string {
  return decoder.decode(table.text.slice(table.textAt[term], table.textAt[term + 1]))
}

/** How many rows have the term. */
export function termRows(table: TermTable, term: number): number {
  return (table.postingAt[term + 1] as number) - (table.postingAt[term] as number)
}

function compare(table: TermTable, term: number, sought: Uint8Array): number {
  const from = table.textAt[term] as number
  const length = (table.textAt[term + 1] as number) - from
  for (let at = 0; at < Math.min(length, sought.length); at += 1) {
    const difference = (table.text[from + at] as number) - (sought[at] as number)
    if (difference !== 0) return difference
  }
  return length - sought.length
}

/** The first term that does not sort before `text`. */
export function lowerBound(table: TermTable, text: string): number {
  const sought = encoder.encode(text)
  let [low, high] = [0, table.count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(table, middle, sought) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** The number of a term, -1 when no row has it. */
export function findTerm(table: TermTable, text: string): number {
  const term = lowerBound(table, text)
  return term < table.count && compare(table, term, encoder.encode(text)) === 0 ? term : -1
}

function doubled<T extends Uint32Array | Float32Array>(array: T, make: (length: number) => T): T {
  const next = make(array.length * 2)
  next.set(array as never)
  return next
}

/** A term during the build: its text, and its number in the order of first occurrence. */
type NamedTerm = { text: string; number: number }

/** Collects postings row by row; `finish` sorts the terms and turns weights into impacts. */
export function createTermTableBuilder() {
  let terms = new Uint32Array(FIRST_SIZE) // posting -> term
  let rows = new Uint32Array(FIRST_SIZE)
  let weights = new Float32Array(FIRST_SIZE)
  let count = 0
  let lastPosting = new Uint32Array(FIRST_SIZE) // term -> 1 + its last posting

  /** Rows must come in ascending order, and term numbers without gaps. Repeated terms of a row add up their weight. */
  function add(row: number, term: number, weight: number): void {
    if (term >= lastPosting.length) lastPosting = doubled(lastPosting, (length) => new Uint32Array(length))
    const last = (lastPosting[term] as number) - 1
    if (last >= 0 && rows[last] === row) {
      weights[last] = (weights[last] as number) + weight
      return
    }
    if (count === rows.length) {
      terms = doubled(terms, (length) => new Uint32Array(length))
      rows = doubled(rows, (length) => new Uint32Array(length))
      weights = doubled(weights, (length) => new Float32Array(length))
    }
    terms[count] = term
    rows[count] = row
    weights[count] = weight
    count += 1
    lastPosting[term] = count
  }

  function finish(named: readonly NamedTerm[], impactOf: (row: number, weight: number) => number): TermTable {
    const encoded = named.map(({ text, number }) => ({ bytes: Buffer.from(text), number }))
    encoded.sort((one, other) => Buffer.compare(one.bytes, other.bytes))
    const size = encoded.reduce((sum, { bytes }) => sum + bytes.length, 0)
    const table = {
      count: encoded.length,
      text: new Uint8Array(shared(size)),
      textAt: new Uint32Array(shared((encoded.length + 1) * 4)),
      postingAt: new Uint32Array(shared((encoded.length + 1) * 4)),
      rows: new Uint32Array(shared(count * 4)),
      impact: new Uint16Array(shared(count * 2)),
      peak: new Uint16Array(shared(encoded.length * 2)),
    }
    const rank = new Uint32Array(encoded.length)
    for (const [place, { bytes, number }] of encoded.entries()) {
      rank[number] = place
      const at = table.textAt[place] as number
      table.text.set(bytes, at)
      table.textAt[place + 1] = at + bytes.length
    }
    const next = new Uint32Array(encoded.length + 1)
    for (let posting = 0; posting < count; posting += 1) {
      const place = rank[terms[posting] as number] as number
      next[place + 1] = (next[place + 1] as number) + 1
    }
    for (let place = 0; place < encoded.length; place += 1) {
      next[place + 1] = (next[place + 1] as number) + (next[place] as number)
    }
    table.postingAt.set(next)
    for (let posting = 0; posting < count; posting += 1) {
      const place = rank[terms[posting] as number] as number
      const to = next[place] as number
      next[place] = to + 1
      const row = rows[posting] as number
      table.rows[to] = row
      const impact = Math.max(1, Math.round(65_535 * impactOf(row, weights[posting] as number)))
      table.impact[to] = impact
      table.peak[place] = Math.max(table.peak[place] as number, impact)
    }
    return table
  }

  return { add, finish }
}
