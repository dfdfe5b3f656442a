/**
 * The first rows of a page, read from its bytes for the words about them. Only the members that the words need are parsed:
 * they are a fifth of a row, and parsing whole rows cost a sixth of a page that nobody asked for before.
 */
import { bufferOf, endOfValue } from '../../adcp/json.js'
import { nameHash, step } from '../../upstreams/rows/written.js'

const NEEDED = new Map(
  [
    'signal_agent_segment_id',
    'name',
    'signal_type',
    'data_provider',
    'coverage_percentage',
    'deployments',
    'pricing_options',
  ].map((name) => [nameHash(name), name] as const),
)
const [QUOTE, COMMA, OPEN, CLOSE] = [0x22, 0x2c, 0x7b, 0x7d]

type FirstRows = { rows: Record<string, unknown>[]; more: boolean }

/** The needed members of the row that opens at `open`, and the index after it; undefined when its end is not here. */
function rowAt(bytes: Buffer, open: number): { row: Record<string, unknown>; end: number } | undefined {
  const row: Record<string, unknown> = {}
  let at = open
  while (at < bytes.length && bytes[at] !== CLOSE) {
    let hash = 0
    for (at += 2; at < bytes.length && bytes[at] !== QUOTE; at += 1) hash = step(hash, bytes[at] as number)
    const start = at + 2
    at = endOfValue(bytes, start)
    if (at >= bytes.length) return undefined
    const name = NEEDED.get(hash)
    if (name !== undefined) row[name] = JSON.parse(bytes.toString('utf8', start, at))
  }
  return at < bytes.length ? { row, end: at + 1 } : undefined
}

/**
 * Of a page's bytes, which we wrote and are objects with commas between them: the first rows, and whether there are more.
 * Where a row is divided among parts, they are joined first. A row that ends in none of them is not read.
 */
export function firstRows(parts: readonly Uint8Array[], most: number): FirstRows {
  const rows: FirstRows['rows'] = []
  for (const part of parts) {
    const bytes = bufferOf(part)
    let at = 0
    while (at < bytes.length) {
      if (bytes[at] === COMMA) {
        at += 1
        continue
      }
      if (rows.length === most) return { rows, more: true }
      const found = bytes[at] === OPEN ? rowAt(bytes, at) : undefined
      if (!found) return parts.length > 1 ? firstRows([Buffer.concat(parts)], most) : { rows, more: true }
      rows.push(found.row)
      at = found.end
    }
  }
  return { rows, more: false }
}
