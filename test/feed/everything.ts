/** Whole snapshots as text, to be compared. */
import type { Numbers } from '../../src/process/shared-memory.js'
import { specsOf, TABLE, valueAt } from '../../src/snapshot/columns.js'
import { rowBytes, type Snapshot } from '../../src/snapshot/snapshot.js'

/** Where rows and listings lie in memory, and how words are numbered, is free. */
const FREE = /^(rows\.|offers\.(slice|row)$)/

/** A column as text that is quick to compare: its words, or its bytes. */
function spelled(column: Numbers, words: readonly string[] | undefined): unknown {
  if (words) return [...column].map((number) => words[number])
  return Buffer.from(column.buffer, column.byteOffset, column.byteLength).toString('base64')
}

/** All that readers, later builds and digests rest on. */
export function everything(snapshot: Snapshot): string {
  const { id, structure, pricing, shown } = snapshot
  const columns = specsOf(TABLE).flatMap(([path, spec]) => {
    if (spec.kind === 'list' || FREE.test(path)) return []
    const list = spec.kind === 'values' ? spec.list : undefined
    const words = list && (valueAt(snapshot, list) as readonly string[])
    return [[path, spelled(valueAt(snapshot, path) as Numbers, words)]]
  })
  const rows = [...shown].map((entry) => Buffer.from(rowBytes(snapshot, entry)).toString())
  return JSON.stringify({ id, structure, pricing, columns, rows })
}
