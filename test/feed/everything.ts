/** Whole snapshots as text, to be compared. */
import { rowBytes, type Snapshot } from '../../src/snapshot/snapshot.js'

/** A column or a list as text that is quick to compare. */
function spelled(value: unknown): unknown {
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, spelled(member)]))
}

/** All that readers, later builds and digests rest on; where rows lie in memory is free. */
export function everything(snapshot: Snapshot): string {
  const { id, structure, pricing, keys, shown, facts, deployments, digests, tree } = snapshot
  const rows = [...shown].map((entry) => Buffer.from(rowBytes(snapshot, entry)).toString())
  return JSON.stringify(
    spelled({ id, structure, pricing, keys, shown, facts, deployments, digests, tree, rows }),
  )
}
