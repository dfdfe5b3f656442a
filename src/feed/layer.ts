/**
 * The snapshots of one layer of the feed (the public one, or one account's overlay): the current one and, on the shelf,
 * those whose page walks are still under way (docs/decisions.md#snapshots-and-versions).
 */
import { LRUCache } from 'lru-cache'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import type { Gap } from './gap.js'
import { createGrants, type Grants } from './grants.js'
import type { Reader } from './query.js'
import type { Shelf } from './shelf.js'
import { drained, type Steps } from './steps.js'
import { type View, viewOf } from './view.js'

/** A snapshot with the views that were asked of it. */
export type Held = {
  readonly snapshot: Snapshot
  readonly gaps: readonly Gap[]
  see(criteria: Criteria, reader: Reader): Sight
  /** The same in portions: seen to the end, `see` has it at once. */
  seeing(criteria: Criteria, reader: Reader): Steps<Sight>
  /** Memory of the views that are remembered. */
  viewBytes(): number
}

/** What a reader is shown of a tuple. */
export type Sight = {
  readonly snapshot: Snapshot
  /** What the snapshot lacks. */
  readonly gaps: readonly Gap[]
  readonly view: View
  readonly grants: Grants
  /** The digest of the keys it is given; empty without any. */
  readonly secret: string
}

const VIEW_BYTES = 32 * 1024 * 1024 // eight whole views of a million signals; most are far smaller
const MOST_VIEWS = 2_000

function hold(snapshot: Snapshot, gaps: readonly Gap[]): Held {
  const views = new LRUCache<string, View>({
    max: MOST_VIEWS,
    maxSize: VIEW_BYTES,
    sizeCalculation: ({ entries }) => (entries === snapshot.shown ? 64 : 64 + entries.byteLength),
  })
  const secrets = new LRUCache<string, string>({ max: MOST_VIEWS })

  const viewKey = ({ tuple }: Criteria, { visibility }: Reader) => `${visibility} ${tuple}`
  const secretKey = ({ tuple }: Criteria, { name }: Grants) => JSON.stringify([name, tuple])

  /** What was seen before. */
  function seen(criteria: Criteria, reader: Reader): Sight | undefined {
    const view = views.get(viewKey(criteria, reader))
    if (!view) return undefined
    const grants = createGrants(snapshot, reader, criteria)
    const secret = grants.digest ? secrets.get(secretKey(criteria, grants)) : ''
    return secret === undefined ? undefined : { snapshot, gaps, view, grants, secret }
  }

  function* seeing(criteria: Criteria, reader: Reader): Steps<Sight> {
    const known = seen(criteria, reader)
    if (known) return known
    const key = viewKey(criteria, reader)
    const view = views.get(key) ?? (yield* viewOf(snapshot, criteria, reader.visibility === 'full'))
    views.set(key, view)
    const grants = createGrants(snapshot, reader, criteria)
    const secret = grants.digest ? yield* grants.digest(view.entries) : ''
    if (grants.digest) secrets.set(secretKey(criteria, grants), secret)
    return { snapshot, gaps, view, grants, secret }
  }

  const see = (criteria: Criteria, reader: Reader) =>
    seen(criteria, reader) ?? drained(seeing(criteria, reader)) // what was seen needs no generator

  return { snapshot, gaps, see, seeing, viewBytes: () => views.calculatedSize }
}

export type LayerOptions = {
  name: string
  shelf: Shelf<Held>
  /** Each snapshot is built on the one before; those of an account are built on the public ones. */
  isBuiltOn: boolean
}

export function createLayer({ name, shelf, isBuiltOn }: LayerOptions) {
  let current: Held | undefined

  function replace(next: Held | undefined, now: number): void {
    if (current) shelf.put(name, current, next?.snapshot, isBuiltOn, now)
    current = next
  }

  return {
    /** Replaces the current snapshot at once. */
    publish: (snapshot: Snapshot, gaps: readonly Gap[], now: number) => replace(hold(snapshot, gaps), now),
    /** There is no current snapshot any more; walks on retained ones go on. */
    withdraw: (now: number) => replace(undefined, now),
    /** The current or retained snapshot of that id; undefined when it is gone. */
    find: (id: string, now: number): Held | undefined =>
      current?.snapshot.id === id ? current : shelf.find(name, id, now),
    current: () => current,
  }
}
