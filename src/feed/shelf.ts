/**
 * Snapshots that were replaced while page walks were under way in them. Time decides: a walk finishes on the snapshot that
 * it began with, however often the feed changes meanwhile. Memory bounds it: the oldest go first, and their walks start
 * again (specification, "mid-pagination"). Snapshots share what did not change, so each costs what changed.
 */
import type { Snapshot } from '../snapshot/snapshot.js'
import { slabBuffers } from '../upstreams/rows/slab.js'

export type SnapshotRetention = {
  /** How long after it was replaced, ms. */
  ms: number
  /** Of memory that nothing but replaced snapshots holds. */
  bytes: number
}

/** What is kept of a layer: a snapshot. The views that were asked of it have a budget of their own. */
type Kept = { readonly snapshot: Snapshot }

type Entry<T> = { layer: string; held: T; at: number; bytes: number }

export type Shelf<T extends Kept> = ReturnType<typeof createShelf<T>>

/** Bytes of rows that only `before` holds: its slices, where `after` has others. */
function slicesBeyond(before: Snapshot, after: Snapshot | undefined): number {
  const others = new Set(after?.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  const own = new Set(before.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  let bytes = 0
  for (const buffer of own) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

export function createShelf<T extends Kept>({ ms, bytes: most }: SnapshotRetention) {
  /** Oldest first. */
  let entries: Entry<T>[] = []
  /** Only those in which somebody walks are worth keeping. */
  const walked = new WeakSet<Snapshot>()

  const bytes = () => entries.reduce((sum, one) => sum + one.bytes, 0)

  function evict(now: number): void {
    entries = entries.filter(({ at }) => now - at < ms)
    while (entries.length > 0 && bytes() > most) entries = entries.slice(1)
  }

  /**
   * Takes what `after` has replaced in a layer; nothing is `after` where the layer ends. `held` costs what it alone holds:
   * of a layer that is built on its own past what `after` let go of, else what it added itself.
   */
  function put(layer: string, held: T, after: Snapshot | undefined, isBuiltOn: boolean, now: number): void {
    const { snapshot } = held
    // An account without rows of its own has the public snapshot, which is kept once.
    const isKept = entries.some((one) => one.held.snapshot === snapshot)
    if (walked.has(snapshot) && !isKept) {
      const columns = isBuiltOn && after ? after.memory.released : snapshot.memory.added
      entries.push({ layer, held, at: now, bytes: columns + slicesBeyond(snapshot, after) })
    }
    // A feed that is again what it was goes on for those who walk in it.
    const isBack = (one: Entry<T>) => one.layer === layer && one.held.snapshot.id === after?.id
    if (after && entries.some(isBack)) walked.add(after)
    entries = entries.filter((one) => !isBack(one))
    evict(now)
  }

  /** The snapshot of that id in a layer; undefined when it is gone. */
  function find(layer: string, id: string, now: number): T | undefined {
    return entries.find((one) => one.layer === layer && one.held.snapshot.id === id && now - one.at < ms)
      ?.held
  }

  return {
    put,
    find,
    /** Somebody was given a cursor into it. */
    walk: (snapshot: Snapshot) => void walked.add(snapshot),
    /** What is kept now: how many snapshots, and the memory that they alone hold. */
    state: () => ({ snapshots: entries.length, bytes: bytes() }),
  }
}
