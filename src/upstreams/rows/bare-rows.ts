/**
 * Rows without some of their parts: prices or coverage that may not be shown. What is left of a row is written as any row is, so
 * that it is the same bytes as one that came without them.
 */
import { bufferOf } from '../../adcp/json.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import { createSlabWriter, slabRow } from './slab.js'
import { digestOf, type Listing, PART_FIELDS, type Part, type Slice } from './slice.js'
import { writeListing } from './written.js'

const PORTION = 50 // rows between two portions

/** One row; the same bytes when it has none of these parts. */
export function bareRow(bytes: Uint8Array, parts: readonly Part[]): Uint8Array {
  const listing = JSON.parse(bufferOf(bytes).toString()) as Listing
  const fields = parts.flatMap((part) => PART_FIELDS[part]).filter((field) => listing[field] !== undefined)
  if (fields.length === 0) return bytes
  for (const field of fields) delete listing[field]
  return Buffer.from(writeListing(listing))
}

/** All rows of a slice. */
export async function bareRows(
  { rows, digests }: Pick<Slice, 'rows' | 'digests'>,
  parts: readonly Part[],
): Promise<Pick<Slice, 'rows' | 'digests'>> {
  const writer = createSlabWriter()
  const found = new BigUint64Array(new SharedArrayBuffer(digests.byteLength))
  for (let row = 0; row < rows.count; row += 1) {
    if (row > 0 && row % PORTION === 0) await nextOwnPortion()
    const bytes = slabRow(rows, row)
    const bare = bareRow(bytes, parts)
    writer.append(bare)
    found[row] = bare === bytes ? (digests[row] as bigint) : digestOf(bare)
  }
  return { rows: writer.finish(), digests: found }
}
