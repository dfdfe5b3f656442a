/**
 * The snapshots of one layer of the feed (the public one, or one account's overlay): the current one, and replaced ones
 * that page walks still use (docs/decisions.md#snapshots-and-versions).
 */
import { createRecent } from '../memory/recent.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { drained, type InPortions } from '../threads/portions.js'
import { slabBuffers } from '../upstreams/rows/slab.js'
import type { Criteria } from './canonical.js'
import { createGrants, type Grants, grantsName } from './grants.js'
import type { ViewCache } from './kept-answers.js'
import type { Gap, Reader } from './query.js'
import { type View, viewOf } from './view.js'

/**
 * How long replaced snapshots are kept for the page walks in them. A walk should finish on the snapshot on which it
 * began, however often the feed changes, so time decides. Memory limits it: the oldest snapshots are dropped first, and
 * their walks begin again (specification, "mid-pagination"). Snapshots share what did not change, so each costs only
 * its changes.
 */
export type SnapshotRetention = {
  /** How long after its replacement, ms. */
  ms: number
  /** Bytes that only replaced snapshots hold. */
  bytes: number
}

/** What is kept of a layer: a snapshot. Its views have a budget of their own. */
type Kept = { readonly snapshot: Snapshot }

type Entry<T> = { layer: string; held: T; at: number; bytes: number }

export type ReplacedSnapshots<T extends Kept> = ReturnType<typeof createReplaced<T>>

/** Bytes of rows that only `before` holds: its slices that `after` no longer has. */
function slicesBeyond(before: Snapshot, after: Snapshot | undefined): number {
  const others = new Set(after?.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  const own = new Set(before.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  let bytes = 0
  for (const buffer of own) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

/** Shared by all layers: `ms` is how long a replaced snapshot is kept, and `bytes` what all of them may take together. */
export function createReplaced<T extends Kept>({ ms, bytes: most }: SnapshotRetention) {
  /** Oldest first. */
  let entries: Entry<T>[] = []
  /** Only snapshots with a walk in them are worth keeping. */
  const walked = new WeakSet<Snapshot>()

  const bytes = () => entries.reduce((sum, one) => sum + one.bytes, 0)

  function evict(now: number): void {
    entries = entries.filter(({ at }) => now - at < ms)
    while (entries.length > 0 && bytes() > most) entries = entries.slice(1)
  }

  /**
   * Keeps the snapshot that `after` has replaced in a layer; `after` is undefined when the layer ends. `held` costs the
   * memory that it alone holds: in a layer built on its own past, what `after` dropped; in another, what it added.
   */
  function put(layer: string, held: T, after: Snapshot | undefined, isBuiltOn: boolean, now: number): void {
    const { snapshot } = held
    // An account without rows of its own uses the public snapshot, which is kept once.
    const isKept = entries.some((one) => one.held.snapshot === snapshot)
    if (walked.has(snapshot) && !isKept) {
      const columns = isBuiltOn && after ? after.memory.released : snapshot.memory.added
      entries.push({ layer, held, at: now, bytes: columns + slicesBeyond(snapshot, after) })
    }
    // A feed may return to an earlier state: walks in that snapshot then continue.
    const isBack = (one: Entry<T>) => one.layer === layer && one.held.snapshot.id === after?.id
    if (after && entries.some(isBack)) walked.add(after)
    entries = entries.filter((one) => !isBack(one))
    evict(now)
  }

  /** The snapshot with that id in a layer; undefined when it is gone. */
  function find(layer: string, id: string, now: number): T | undefined {
    return entries.find((one) => one.layer === layer && one.held.snapshot.id === id && now - one.at < ms)
      ?.held
  }

  /** Adds a snapshot that a walk needs and that this process never had or has dropped. `current` is the layer's. */
  function restore(layer: string, held: T, current: Snapshot | undefined, now: number): void {
    const { snapshot } = held
    const bytes = snapshot.rows.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
    entries.push({ layer, held, at: now, bytes: bytes + slicesBeyond(snapshot, current) })
    walked.add(snapshot)
    evict(now)
  }

  return {
    put,
    find,
    restore,
    /** A cursor into it was given out. */
    walk: (snapshot: Snapshot) => void walked.add(snapshot),
    /** How many snapshots are kept, and the memory that only they hold. */
    state: () => ({ snapshots: entries.length, bytes: bytes() }),
  }
}

/** A snapshot with the views that were made of it. */
export type Layer = {
  readonly snapshot: Snapshot
  readonly gaps: readonly Gap[]
  see(criteria: Criteria, reader: Reader): TupleView
  /** Whether `see` can answer without work. */
  knows(criteria: Criteria, reader: Reader): boolean
  /** The same work in portions: once it is done, `see` answers at once. */
  seeing(criteria: Criteria, reader: Reader): InPortions<TupleView>
}

/** What a reader sees of a tuple. */
export type TupleView = {
  readonly snapshot: Snapshot
  /** What the snapshot lacks. */
  readonly gaps: readonly Gap[]
  readonly view: View
  readonly grants: Grants
  /** The digest of the keys that the reader sees; empty for none. */
  readonly secret: string
}

const MOST_VIEWS = 2_000

/** Wraps a snapshot so that it can be viewed. */
export function hold(snapshot: Snapshot, gaps: readonly Gap[], filtered: ViewCache): Layer {
  const whole = createRecent<View>(MOST_VIEWS) // views of everything share the snapshot's own column
  const secrets = createRecent<string>(MOST_VIEWS)

  const viewKey = ({ tuple }: Criteria, { visibility, wholeOnly }: Reader) =>
    `${wholeOnly ? 'whole' : visibility} ${tuple}`
  const secretKey = (view: string, name: string) => JSON.stringify([name, view])

  const viewAt = (key: string) => whole.get(key) ?? filtered.get(snapshot.id, key)

  function keep(key: string, view: View): void {
    if (view.entries === snapshot.shown) whole.set(key, view)
    else filtered.set(snapshot.id, key, view)
  }

  /** The view that was made earlier. */
  function seen(criteria: Criteria, reader: Reader): TupleView | undefined {
    const key = viewKey(criteria, reader)
    const view = viewAt(key)
    if (!view) return undefined
    const grants = createGrants(snapshot, reader, criteria)
    const secret = grants.digest ? secrets.get(secretKey(key, grants.name)) : ''
    return secret === undefined ? undefined : { snapshot, gaps, view, grants, secret }
  }

  function* seeing(criteria: Criteria, reader: Reader): InPortions<TupleView> {
    const known = seen(criteria, reader)
    if (known) return known
    const key = viewKey(criteria, reader)
    const made = viewAt(key) ?? (yield* viewOf(snapshot, criteria, reader))
    const view = viewAt(key) ?? made // another request may have made it meanwhile
    keep(key, view)
    const grants = createGrants(snapshot, reader, criteria)
    const secret = grants.digest ? yield* grants.digest(view.entries) : ''
    if (grants.digest) secrets.set(secretKey(key, grants.name), secret)
    return { snapshot, gaps, view, grants, secret }
  }

  const see = (criteria: Criteria, reader: Reader) =>
    seen(criteria, reader) ?? drained(seeing(criteria, reader)) // an existing view needs no generator

  /** Asked before every answer, so it does not compute the grants. */
  function knows(criteria: Criteria, reader: Reader): boolean {
    const key = viewKey(criteria, reader)
    if (!viewAt(key)) return false
    const name = grantsName(reader)
    return name === '' || secrets.has(secretKey(key, name))
  }

  return { snapshot, gaps, see, seeing, knows }
}

type LayerOptions = {
  name: string
  replaced: ReplacedSnapshots<Layer>
  filtered: ViewCache
  /** Public snapshots are built on one another; those of an account are built on the public ones. */
  isBuiltOn: boolean
}

/** Without a snapshot at first. */
export function createLayer({ name, replaced, filtered, isBuiltOn }: LayerOptions) {
  let current: Layer | undefined

  function replace(next: Layer | undefined, now: number): void {
    if (current) replaced.put(name, current, next?.snapshot, isBuiltOn, now)
    current = next
  }

  return {
    /** Replaces the current snapshot. */
    publish: (snapshot: Snapshot, gaps: readonly Gap[], now: number) =>
      replace(hold(snapshot, gaps, filtered), now),
    /** Ends the layer; walks in its retained snapshots continue. */
    withdraw: (now: number) => replace(undefined, now),
    /** The current or retained snapshot with that id; undefined when it is gone. */
    find: (id: string, now: number): Layer | undefined =>
      current?.snapshot.id === id ? current : replaced.find(name, id, now),
    current: () => current,
  }
}
