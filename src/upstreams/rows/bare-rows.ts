/**
 * Rows without some of their parts: prices or coverage that may not be shown. What is left of a row is written as any row is, so
 * that it is the same bytes as one that came without them.
 */
import { bufferOf } from '../../adcp/json.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import { createMeter, type InPortions, rowUnits } from '../../process/portions.js'
import { listingBytes, type ReadRows } from './read-rows.js'
import { createSlabWriter, slabRow } from './slab.js'
import { digestOf, type Listing, PART_FIELDS, type Part, type Slice } from './slice.js'
import { writeListing } from './written.js'

/** One row; the same bytes when it has none of these parts. */
function bareRow(bytes: Uint8Array, parts: readonly Part[]): Uint8Array {
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
  const meter = createMeter()
  for (let row = 0; row < rows.count; row += 1) {
    if (meter.isDue()) await nextOwnPortion()
    const bytes = slabRow(rows, row)
    meter.did(rowUnits(bytes.byteLength))
    const bare = bareRow(bytes, parts)
    writer.append(bare)
    found[row] = bare === bytes ? (digests[row] as bigint) : digestOf(bare)
  }
  return { rows: writer.finish(), digests: found }
}

/** All rows of an answer. What was counted and found in them as they came stays as it is. */
export function* bareAnswer(read: ReadRows, parts: readonly Part[]): InPortions<ReadRows> {
  const texts: Uint8Array[] = []
  const ends = new Uint32Array(read.ends.length)
  const digests = read.digests.slice()
  const meter = createMeter()
  let end = 0
  for (const row of listingBytes(read)) {
    const bare = bareRow(row, parts)
    const at = texts.push(bare) - 1
    if (bare !== row) digests[at] = digestOf(bare)
    end += bare.byteLength
    ends[at] = end
    meter.did(rowUnits(row.byteLength))
    if (meter.isDue()) yield
  }
  const bytes = new Uint8Array(end)
  for (const [at, text] of texts.entries()) bytes.set(text, ends[at - 1] ?? 0)
  const places = { words: new Uint32Array(0), ends: new Uint32Array(texts.length) } // members are not where they were
  return { ...read, bytes, ends, digests, places }
}
