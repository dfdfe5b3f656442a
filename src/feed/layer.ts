/**
 * The snapshots of one layer of the feed (the public one, or one account's overlay): the current one and, on the shelf,
 * those whose page walks are still under way (docs/decisions.md#snapshots-and-versions).
 */
import { LRUCache } from 'lru-cache'
import type { Snapshot } from '../snapshot/snapshot.js'
import { drained, type InPortions } from '../threads/portions.js'
import type { Criteria } from './canonical.js'
import type { Gap } from './gap.js'
import { createGrants, type Grants, grantsName } from './grants.js'
import type { ViewCache } from './kept-answers.js'
import type { Reader } from './query.js'
import type { Shelf } from './shelf.js'
import { type View, viewOf } from './view.js'

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

function hold(snapshot: Snapshot, gaps: readonly Gap[], filtered: ViewCache): Layer {
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

export type LayerOptions = {
  name: string
  shelf: Shelf<Layer>
  filtered: ViewCache
  /** Each snapshot is built on the one before; those of an account are built on the public ones. */
  isBuiltOn: boolean
}

export function createLayer({ name, shelf, filtered, isBuiltOn }: LayerOptions) {
  let current: Layer | undefined

  function replace(next: Layer | undefined, now: number): void {
    if (current) shelf.put(name, current, next?.snapshot, isBuiltOn, now)
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
      current?.snapshot.id === id ? current : shelf.find(name, id, now),
    current: () => current,
  }
}
