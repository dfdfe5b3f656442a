/**
 * Gathers rows into what a slice is made of: validated, each once, hashed, counted when refused. Works in small
 * portions, so that a page of any size never holds the event loop.
 */
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { readRow } from './listing.js'
import { createSlabWriter, type Slab } from './slab.js'

const PORTION = 100 // rows between two turns of the loop: under a millisecond of work
const MAX_DOMAINS = 100_000
const FIRST_DIGESTS = 1_024

export type Collected = {
  rows: Slab
  digests: BigUint64Array
  dropped: Readonly<Record<string, number>>
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

export function createCollector() {
  const writer = createSlabWriter()
  const seen = new Set<string>()
  const dropped = new Map<string, number>()
  const domains = new Set<string>()
  let digests = grownDigests(new BigUint64Array(0), FIRST_DIGESTS)
  let count = 0
  let bytes = 0

  function drop(reason: string): void {
    dropped.set(reason, (dropped.get(reason) ?? 0) + 1)
  }

  /** Gives whether the row was a repetition. */
  function takeOne(raw: Uint8Array): boolean {
    const row = readRow(raw)
    if (row.kind === 'dropped') {
      drop(row.reason)
      return false
    }
    const { signal_agent_segment_id: segment, signal_ref: ref } = row.listing
    if (seen.has(segment)) {
      drop('repeated') // one handle, one signal: activation could not tell two rows apart
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
        domains: [...domains].sort(),
      }
    },
  }
}

export type Collector = ReturnType<typeof createCollector>
