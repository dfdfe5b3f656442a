/**
 * Gathers rows into what a slice is made of: validated, each once, hashed, counted when refused. Works in small
 * portions, so that a page of any size never holds the event loop.
 */

import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isRecord } from '../../adcp/json.js'
import { boundedText } from './json.js'
import { type ReadRow, readRow } from './listing.js'
import { createSlabWriter, type Slab } from './slab.js'
import type { RefusedRow } from './slice.js'

const PORTION = 100 // rows between two turns of the loop: under a millisecond of work
const MAX_DOMAINS = 100_000
const FIRST_DIGESTS = 1_024
const MAX_REFUSED = 1_000 // named; the others are counted
const MAX_NAME = 300

export type Collected = {
  rows: Slab
  digests: BigUint64Array
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** Provider domains that the rows name, sorted. */
  domains: readonly string[]
}

export type Taken = {
  /** Rows that were not seen before in this collection. */
  fresh: number
  repeated: number
}

function grownDigests(from: BigUint64Array, rows: number): BigUint64Array {
  const to = new BigUint64Array(new SharedArrayBuffer(rows * 8))
  to.set(from.length > rows ? from.subarray(0, rows) : from)
  return to
}

export function digestOf(bytes: Uint8Array): bigint {
  return hash('sha256', bytes, 'buffer').readBigUInt64BE(0)
}

/** The names in a refused row: its segment, and its reference as `domain/id`, `url#id` or the bare id. */
function namesOf(reason: string, row: Readonly<Record<string, unknown>> = {}): RefusedRow {
  const ref = [row.signal_ref, row.signal_id].find(isRecord) ?? {}
  const segment = boundedText(row.signal_agent_segment_id, MAX_NAME)
  const id = boundedText(ref.signal_id ?? ref.id, MAX_NAME)
  const domain = boundedText(ref.data_provider_domain, MAX_NAME)
  const source = boundedText(ref.signal_source_url ?? ref.agent_url, MAX_NAME)
  const signal = id && (domain ? `${domain}/${id}` : source ? `${source}#${id}` : id)
  return { reason, ...(segment && { segment }), ...(signal && { signal }) }
}

export function createCollector() {
  const writer = createSlabWriter()
  const seen = new Set<string>()
  const dropped = new Map<string, number>()
  const refused: RefusedRow[] = []
  const domains = new Set<string>()
  let digests = grownDigests(new BigUint64Array(0), FIRST_DIGESTS)
  let count = 0
  let bytes = 0

  function drop({ reason, row }: Omit<Extract<ReadRow, { kind: 'dropped' }>, 'kind'>): void {
    dropped.set(reason, (dropped.get(reason) ?? 0) + 1)
    if (refused.length < MAX_REFUSED) refused.push(namesOf(reason, row))
  }

  /** Gives whether the row was a repetition. */
  function takeOne(raw: Uint8Array): boolean {
    const row = readRow(raw)
    if (row.kind === 'dropped') {
      drop(row)
      return false
    }
    const { signal_agent_segment_id: segment, signal_ref: ref } = row.listing
    if (seen.has(segment)) {
      drop({ reason: 'repeated', row: row.listing }) // one handle, one signal: activation could not tell two rows apart
      return true
    }
    seen.add(segment)
    if (ref?.scope === 'data_provider' && domains.size < MAX_DOMAINS) domains.add(ref.data_provider_domain)
    if (count === digests.length) digests = grownDigests(digests, count * 2)
    digests[count] = digestOf(row.bytes)
    writer.append(row.bytes)
    bytes += row.bytes.byteLength
    count += 1
    return false
  }

  return {
    async take(rows: readonly Uint8Array[]): Promise<Taken> {
      let repeated = 0
      for (let at = 0; at < rows.length; at++) {
        if (at > 0 && at % PORTION === 0) await nextTurn()
        if (takeOne(rows[at] as Uint8Array)) repeated += 1
      }
      return { fresh: rows.length - repeated, repeated }
    },
    rows: () => count,
    bytes: () => bytes,
    finish(): Collected {
      return {
        rows: writer.finish(),
        digests: grownDigests(digests, count),
        dropped: Object.fromEntries(dropped),
        refused,
        domains: [...domains].sort(),
      }
    },
  }
}

export type Collector = ReturnType<typeof createCollector>
