/**
 * When an upstream cannot state its prices or its coverage, its rows keep those that it last gave. A part that the row
 * states itself is used; a part is only carried between rows of one segment and one reference.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Collected } from '../rows/collect.js'
import { digestOf } from '../rows/digest.js'
import { createSlabWriter, slabRow } from '../rows/slab.js'
import { type Listing, type Part, type Slice, sliceListing } from '../rows/slice.js'
import { writeListing } from '../rows/written.js'

const PORTION = 50 // rows between two turns of the loop: each is parsed twice

const FIELDS: Record<Part, readonly (keyof Listing)[]> = {
  pricing: ['pricing_options'],
  coverage: ['coverage_percentage', 'coverage_forecast'],
}

/** The same signal under the same name: prices of another signal are never used. */
function isSame(a: Listing, b: Listing): boolean {
  const name = ({ signal_agent_segment_id, signal_ref, signal_id }: Listing) =>
    JSON.stringify([signal_agent_segment_id, signal_ref, signal_id])
  return name(a) === name(b)
}

const isEmpty = (value: unknown) => value === undefined || (Array.isArray(value) && value.length === 0)

/**
 * `row` with the parts of `before` that it does not state at all, members in the order of `before`: a row of which
 * nothing else changed is the same bytes as it was. Undefined when there is nothing to carry.
 */
function withParts(row: Listing, before: Listing, parts: readonly Part[]): Listing | undefined {
  const lost = parts.filter((part) => FIELDS[part].every((field) => isEmpty(row[field])))
  const carried = lost.flatMap((part) => FIELDS[part]).filter((field) => !isEmpty(before[field]))
  if (carried.length === 0) return undefined
  const whole = { ...row, ...Object.fromEntries(carried.map((field) => [field, before[field]])) }
  const names = new Set([...Object.keys(before), ...Object.keys(whole)] as (keyof Listing)[])
  const members = [...names].filter((name) => name in whole).map((name) => [name, whole[name]])
  return Object.fromEntries(members) as Listing
}

/** Finds the row of a segment, first where it stood last time; -1 when there is none. */
function createFinder(slice: Slice) {
  let rows: Map<string, number> | undefined

  async function everywhere(): Promise<Map<string, number>> {
    const found = new Map<string, number>()
    for (let row = 0; row < slice.rows.count; row += 1) {
      if (row > 0 && row % PORTION === 0) await nextTurn()
      found.set(sliceListing(slice, row).signal_agent_segment_id, row)
    }
    return found
  }

  return async ({ signal_agent_segment_id: segment }: Listing, near: number): Promise<number> => {
    const isThere = near < slice.rows.count && sliceListing(slice, near).signal_agent_segment_id === segment
    if (isThere) return near
    rows ??= await everywhere()
    return rows.get(segment) ?? -1
  }
}

const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** What was collected, with the parts that are out as `before` has them. */
export async function carryParts<T extends Collected>(
  found: T,
  before: Slice,
  parts: readonly Part[],
): Promise<T> {
  const find = createFinder(before)
  const writer = createSlabWriter()
  const digests = new BigUint64Array(new SharedArrayBuffer(found.digests.byteLength))

  function carried(bytes: Uint8Array, listing: Listing, at: number): Uint8Array {
    const old = sliceListing(before, at)
    const whole = isSame(listing, old) ? withParts(listing, old, parts) : undefined
    return whole ? encoder.encode(writeListing(whole)) : bytes
  }

  for (let row = 0; row < found.rows.count; row += 1) {
    if (row > 0 && row % PORTION === 0) await nextTurn()
    const bytes = slabRow(found.rows, row)
    const listing = JSON.parse(decoder.decode(bytes)) as Listing
    const at = await find(listing, row)
    const kept = at < 0 ? bytes : carried(bytes, listing, at)
    writer.append(kept)
    digests[row] = kept === bytes ? (found.digests[row] as bigint) : digestOf(kept)
  }
  return { ...found, rows: writer.finish(), digests }
}
