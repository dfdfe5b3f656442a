/**
 * The snapshots of one layer of the feed (the public one, or one account's overlay): the current one and, replaced,
 * those whose page walks are still under way (docs/decisions.md#snapshots-and-versions).
 */
import { LRUCache } from 'lru-cache'
import type { Snapshot } from '../snapshot/snapshot.js'
import { drained, type InPortions } from '../threads/portions.js'
import { slabBuffers } from '../upstreams/rows/slab.js'
import type { Criteria } from './canonical.js'
import { createGrants, type Grants, grantsName } from './grants.js'
import type { ViewCache } from './kept-answers.js'
import type { Gap, Reader } from './query.js'
import { type View, viewOf } from './view.js'

/**
 * Snapshots that were replaced while page walks were under way in them. Time decides: a walk finishes on the snapshot that
 * it began with, however often the feed changes meanwhile. Memory bounds it: the oldest go first, and their walks start
 * again (specification, "mid-pagination"). Snapshots share what did not change, so each costs what changed.
 */
export type SnapshotRetention = {
  /** How long after it was replaced, ms. */
  ms: number
  /** Of memory that nothing but replaced snapshots holds. */
  bytes: number
}

/** What is kept of a layer: a snapshot. The views that were asked of it have a budget of their own. */
type Kept = { readonly snapshot: Snapshot }

type Entry<T> = { layer: string; held: T; at: number; bytes: number }

export type ReplacedSnapshots<T extends Kept> = ReturnType<typeof createReplaced<T>>

/** Bytes of rows that only `before` holds: its slices, where `after` has others. */
function slicesBeyond(before: Snapshot, after: Snapshot | undefined): number {
  const others = new Set(after?.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  const own = new Set(before.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  let bytes = 0
  for (const buffer of own) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

export function createReplaced<T extends Kept>({ ms, bytes: most }: SnapshotRetention) {
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

  /** Takes one that somebody walks in and that this process did not have, or let go of. `current` is the layer's. */
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
    /** Somebody was given a cursor into it. */
    walk: (snapshot: Snapshot) => void walked.add(snapshot),
    /** What is kept now: how many snapshots, and the memory that they alone hold. */
    state: () => ({ snapshots: entries.length, bytes: bytes() }),
  }
}

/** A snapshot with the views that were asked of it. */
export type Layer = {
  readonly snapshot: Snapshot
  readonly gaps: readonly Gap[]
  see(criteria: Criteria, reader: Reader): TupleView
  /** Whether `see` has nothing to work out. */
  knows(criteria: Criteria, reader: Reader): boolean
  /** The same in portions: seen to the end, `see` has it at once. */
  seeing(criteria: Criteria, reader: Reader): InPortions<TupleView>
}

/** What a reader is shown of a tuple. */
export type TupleView = {
  readonly snapshot: Snapshot
  /** What the snapshot lacks. */
  readonly gaps: readonly Gap[]
  readonly view: View
  readonly grants: Grants
  /** The digest of the keys it is given; empty without any. */
  readonly secret: string
}

const MOST_VIEWS = 2_000

/** A snapshot to be seen. */
export function hold(snapshot: Snapshot, gaps: readonly Gap[], filtered: ViewCache): Layer {
  const whole = new LRUCache<string, View>({ max: MOST_VIEWS }) // these share the snapshot's own column
  const secrets = new LRUCache<string, string>({ max: MOST_VIEWS })

  const viewKey = ({ tuple }: Criteria, { visibility, pricedOnly }: Reader) =>
    `${pricedOnly ? 'priced' : visibility} ${tuple}`
  const secretKey = (view: string, name: string) => JSON.stringify([name, view])

  const viewAt = (key: string) => whole.get(key) ?? filtered.get(snapshot.id, key)

  function keep(key: string, view: View): void {
    if (view.entries === snapshot.shown) whole.set(key, view)
    else filtered.set(snapshot.id, key, view)
  }

  /** What was seen before. */
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
    const view = viewAt(key) ?? made // another request for the same may have been first
    keep(key, view)
    const grants = createGrants(snapshot, reader, criteria)
    const secret = grants.digest ? yield* grants.digest(view.entries) : ''
    if (grants.digest) secrets.set(secretKey(key, grants.name), secret)
    return { snapshot, gaps, view, grants, secret }
  }

  const see = (criteria: Criteria, reader: Reader) =>
    seen(criteria, reader) ?? drained(seeing(criteria, reader)) // what was seen needs no generator

  /** Without working out the grants themselves: this is asked before every answer. */
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
  /** Each snapshot is built on the one before; those of an account are built on the public ones. */
  isBuiltOn: boolean
}

export function createLayer({ name, replaced, filtered, isBuiltOn }: LayerOptions) {
  let current: Layer | undefined

  function replace(next: Layer | undefined, now: number): void {
    if (current) replaced.put(name, current, next?.snapshot, isBuiltOn, now)
    current = next
  }

  return {
    /** Replaces the current snapshot at once. */
    publish: (snapshot: Snapshot, gaps: readonly Gap[], now: number) =>
      replace(hold(snapshot, gaps, filtered), now),
    /** There is no current snapshot any more; walks on retained ones go on. */
    withdraw: (now: number) => replace(undefined, now),
    /** The current or retained snapshot of that id; undefined when it is gone. */
    find: (id: string, now: number): Layer | undefined =>
      current?.snapshot.id === id ? current : replaced.find(name, id, now),
    current: () => current,
  }
}
