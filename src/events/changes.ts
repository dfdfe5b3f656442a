/**
 * What happened between two snapshots: signals created, updated, priced, removed (docs/house.md). Their hash trees tell in
 * which buckets anything differs, so that a change among a million signals costs a look at a thousand; what differs much is
 * looked at in portions. No row is parsed here.
 */
import { bucketEntries, differingBuckets } from '../snapshot/hash-tree.js'
import { compareKeys, WORDS } from '../snapshot/keys.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createMeter, type InPortions } from '../threads/portions.js'

/** `before` and `after` are entries of the two snapshots. */
export type Change =
  | { readonly kind: 'created'; readonly after: number }
  /** Structure moved, prices perhaps too. */
  | { readonly kind: 'updated'; readonly before: number; readonly after: number }
  /** Nothing but prices moved. */
  | { readonly kind: 'priced'; readonly before: number; readonly after: number }
  | { readonly kind: 'removed'; readonly before: number }
  /** Only activation keys changed: a reader who may see none of them is sent nothing. */
  | { readonly kind: 'keyed'; readonly before: number; readonly after: number }

export type ChangeSet = {
  /** Signals of which anything but keys moved. */
  readonly count: number
  /** In key order; the first of them where there are more than were asked for. */
  readonly changes: readonly Change[]
  /** Whether `changes` are all. */
  readonly isWhole: boolean
}

function sameWords(a: Uint32Array, i: number, b: Uint32Array, j: number, width: number): boolean {
  for (let word = 0; word < width; word += 1) if (a[i * width + word] !== b[j * width + word]) return false
  return true
}

/** Of two rows whose structure is the same, so that their deployments stand in one order. */
function sameActivationKeys(before: Snapshot, i: number, after: Snapshot, j: number): boolean {
  const from = before.deployments.at[i] as number
  const count = (before.deployments.at[i + 1] as number) - from
  const to = after.deployments.at[j] as number
  for (let one = 0; one < count; one += 1) {
    if (!sameWords(before.deployments.key, from + one, after.deployments.key, to + one, 2)) return false
  }
  return true
}

function changeOf(before: Snapshot, i: number, after: Snapshot, j: number): Change | undefined {
  const kind = !sameWords(before.digests.structure, i, after.digests.structure, j, WORDS)
    ? 'updated'
    : !sameWords(before.digests.pricing, i, after.digests.pricing, j, WORDS)
      ? 'priced'
      : !sameActivationKeys(before, i, after, j)
        ? 'keyed'
        : undefined
  return kind && { kind, before: i, after: j }
}

const isShown = ({ rows }: Snapshot, entry: number) => rows.length[entry] !== 0

/** The changes of one bucket: one walk over two sorted runs of entries. */
function* ofBucket(before: Snapshot, after: Snapshot, bucket: number): Generator<Change> {
  let [i, endOfBefore] = bucketEntries(before, bucket)
  let [j, endOfAfter] = bucketEntries(after, bucket)
  while (i < endOfBefore || j < endOfAfter) {
    if (i < endOfBefore && !isShown(before, i)) i += 1
    else if (j < endOfAfter && !isShown(after, j)) j += 1
    else {
      const side = i === endOfBefore ? 1 : j === endOfAfter ? -1 : compareKeys(before.keys, i, after.keys, j)
      const change: Change | undefined =
        side < 0
          ? { kind: 'removed', before: i }
          : side > 0
            ? { kind: 'created', after: j }
            : changeOf(before, i, after, j)
      if (change) yield change
      if (side <= 0) i += 1
      if (side >= 0) j += 1
    }
  }
}

/** All changes are counted, and the first `most` given. */
export function* changesBetween(before: Snapshot, after: Snapshot, most: number): InPortions<ChangeSet> {
  const meter = createMeter()
  const changes: Change[] = []
  let [count, left] = [0, 0]
  for (const bucket of before.id === after.id ? [] : differingBuckets(before.tree, after.tree)) {
    const [from, end] = bucketEntries(after, bucket)
    meter.did(1 + end - from)
    if (meter.isDue()) yield
    for (const change of ofBucket(before, after, bucket)) {
      if (change.kind !== 'keyed') count += 1
      if (changes.length < most) changes.push(change)
      else left += 1
    }
  }
  return { count, changes, isWhole: left === 0 }
}
