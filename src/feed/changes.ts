/**
 * What happened between two snapshots: signals created, updated, priced, removed (docs/house.md). One walk
 * over two sorted columns; rows are parsed only where digests differ.
 */
import type { SignalRef } from '../adcp/reference.js'
import { compareKeys, WORDS } from '../snapshot/keys.js'
import { handleAt, rowAt, type Snapshot } from '../snapshot/snapshot.js'

type Named = { readonly handle: string; readonly ref: SignalRef }

export type Change =
  | (Named & { readonly kind: 'created'; readonly entry: number })
  /** Structure moved, prices perhaps too: `fields` names the members that differ. */
  | (Named & { readonly kind: 'updated'; readonly entry: number; readonly fields: readonly string[] })
  /** Nothing but prices moved. */
  | (Named & { readonly kind: 'priced'; readonly entry: number })
  /** The tombstone: what is left of a signal. */
  | (Named & { readonly kind: 'removed' })

function named(snapshot: Snapshot, entry: number): Named {
  return { handle: handleAt(snapshot, entry), ref: rowAt(snapshot, entry).signal_ref as SignalRef }
}

function sameDigest(a: Uint32Array, i: number, b: Uint32Array, j: number): boolean {
  for (let word = 0; word < WORDS; word += 1) if (a[i * WORDS + word] !== b[j * WORDS + word]) return false
  return true
}

function changedFields(before: Snapshot, i: number, after: Snapshot, j: number): string[] {
  const a = rowAt(before, i)
  const b = rowAt(after, j)
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].filter((name) => JSON.stringify(a[name]) !== JSON.stringify(b[name])).sort()
}

/** In key order, one by one, so that a reader of a large difference holds one change at a time. */
export function* changesBetween(before: Snapshot, after: Snapshot): Generator<Change> {
  if (before.id === after.id) return
  let i = 0
  let j = 0
  while (i < before.shown.length || j < after.shown.length) {
    const old = before.shown[i]
    const now = after.shown[j]
    const side =
      old === undefined ? 1 : now === undefined ? -1 : compareKeys(before.keys, old, after.keys, now)
    if (side < 0 && old !== undefined) {
      yield { kind: 'removed', ...named(before, old) }
      i += 1
    } else if (side > 0 && now !== undefined) {
      yield { kind: 'created', entry: now, ...named(after, now) }
      j += 1
    } else if (old !== undefined && now !== undefined) {
      if (!sameDigest(before.digests.structure, old, after.digests.structure, now)) {
        const fields = changedFields(before, old, after, now)
        yield { kind: 'updated', entry: now, fields, ...named(after, now) }
      } else if (!sameDigest(before.digests.pricing, old, after.digests.pricing, now)) {
        yield { kind: 'priced', entry: now, ...named(after, now) }
      }
      i += 1
      j += 1
    }
  }
}
