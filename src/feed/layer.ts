/**
 * The snapshots of one layer of the feed (the public one, or one account's overlay): the current one and, for a bounded
 * time and count, those whose page walks are still under way (docs/decisions.md#snapshots-and-versions).
 */
import { LRUCache } from 'lru-cache'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import type { Gap } from './gap.js'
import { createGrants, type Grants } from './grants.js'
import type { Reader } from './query.js'
import { drained, type Steps } from './steps.js'
import { type View, viewOf } from './view.js'

export type Retention = {
  /** Snapshots kept beside the current one. */
  count: number
  /** How long after it was replaced, ms. */
  ms: number
}

/** A snapshot with the views that were asked of it. */
export type Held = {
  readonly snapshot: Snapshot
  readonly gaps: readonly Gap[]
  see(criteria: Criteria, reader: Reader): Sight
  /** The same in portions: seen to the end, `see` has it at once. */
  seeing(criteria: Criteria, reader: Reader): Steps<Sight>
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

  return { snapshot, gaps, see, seeing }
}

export function createLayer(retain: Retention) {
  let current: Held | undefined
  let retired: { held: Held; at: number }[] = []

  const isLive = (now: number) => (one: { at: number }) => now - one.at < retain.ms

  function retire(now: number): void {
    if (current) retired.unshift({ held: current, at: now })
    retired = retired.filter(isLive(now)).slice(0, retain.count)
  }

  /** Replaces the current snapshot at once. */
  function publish(snapshot: Snapshot, gaps: readonly Gap[], now: number): void {
    if (current && current.snapshot.id !== snapshot.id) retire(now)
    retired = retired.filter(({ held }) => held.snapshot.id !== snapshot.id)
    current = hold(snapshot, gaps)
  }

  /** There is no current snapshot any more; walks on retained ones go on. False once none is left. */
  function withdraw(now: number): boolean {
    retire(now)
    current = undefined
    return retired.length > 0
  }

  /** The retained snapshot of that id; undefined when it is gone. */
  function find(id: string, now: number): Held | undefined {
    if (current?.snapshot.id === id) return current
    return retired.filter(isLive(now)).find(({ held }) => held.snapshot.id === id)?.held
  }

  return { publish, withdraw, find, current: () => current }
}
