/** Rows without their prices: what an agent tells one of its accounts is nobody else's to read (specification, "`cache_scope`"). */
import { listingBytes, type ReadRows, readRows } from './read-rows.js'

function withoutPrices(bytes: Uint8Array): Uint8Array {
  const { pricing_options: _, ...rest } = JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>
  return Buffer.from(JSON.stringify(rest))
}

/** What was counted and refused stays so. */
export function unpriced(rows: ReadRows): ReadRows {
  const { elements, dropped, refused } = rows
  return { ...readRows([...listingBytes(rows)].map(withoutPrices)), elements, dropped, refused }
}
