/**
 * The layers of the feed: the public one, and one for each account that gets prices of its own. Each has a current snapshot,
 * and replaced ones that page walks still use (docs/decisions.md#snapshots-and-versions). Layers are published together,
 * and a reader is answered from both as they were at one moment.
 */
import { createRecent } from '../process/memory.js'
import { drained, type InPortions } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { slabBuffers } from '../upstreams/rows/slab.js'
import { createGrants, type Grants, grantsName } from './grants.js'
import { type CacheScope, type Criteria, type Gap, isUnconfirmed, type Reader } from './query.js'
import { createViewCache, type View, type ViewCache, viewOf } from './view.js'

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

/** A replaced snapshot of a layer. Its views have a budget of their own. */
type Entry = { layer: string; held: Layer; at: number; bytes: number }

type ReplacedSnapshots = ReturnType<typeof createReplaced>

/** Bytes of rows that only `before` holds: its slices that `after` no longer has. */
function slicesBeyond(before: Snapshot, after: Snapshot | undefined): number {
  const others = new Set(after?.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  const own = new Set(before.slices.flatMap(({ slice }) => slabBuffers(slice.rows)))
  let bytes = 0
  for (const buffer of own) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

/** Shared by all layers: `ms` is how long a replaced snapshot is kept, and `bytes` what all of them may take together. */
function createReplaced({ ms, bytes: most }: SnapshotRetention) {
  /** Oldest first. */
  let entries: Entry[] = []
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
  function put(
    { layer, held, at: now }: Omit<Entry, 'bytes'>,
    after: Snapshot | undefined,
    isBuiltOn: boolean,
  ): void {
    const { snapshot } = held
    // An account without rows of its own uses the public snapshot, which is kept once.
    const isKept = entries.some((one) => one.held.snapshot === snapshot)
    if (walked.has(snapshot) && !isKept) {
      const columns = isBuiltOn && after ? after.memory.released : snapshot.memory.added
      entries.push({ layer, held, at: now, bytes: columns + slicesBeyond(snapshot, after) })
    }
    // A feed may return to an earlier state: walks in that snapshot then continue.
    const isBack = (one: Entry) => one.layer === layer && one.held.snapshot.id === after?.id
    if (after && entries.some(isBack)) walked.add(after)
    entries = entries.filter((one) => !isBack(one))
    evict(now)
  }

  /** The snapshot with that id in a layer; undefined when it is gone, or was made for another account. */
  function find(layer: string, id: string, now: number): Layer | undefined {
    const isIt = ({ snapshot, stands }: Layer) => snapshot.id === id && stands()
    return entries.find((one) => one.layer === layer && now - one.at < ms && isIt(one.held))?.held
  }

  /** Adds a snapshot that a walk needs and that this process never had or has dropped. `current` is the layer's. */
  function restore(layer: string, held: Layer, current: Snapshot | undefined, now: number): void {
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
  /**
   * Whether the name of its account stands for the account that it was made for. Another one's prices are nobody's to see, not
   * even of a walk that began in them.
   */
  stands(): boolean
  see(criteria: Criteria, reader: Reader): TupleView
  /** Whether `see` can answer without work. */
  knows(criteria: Criteria, reader: Reader): boolean
  /** The same work in portions: once it is done, `see` answers at once. */
  seeing(criteria: Criteria, reader: Reader): InPortions<TupleView>
}

/** What a reader sees of a tuple. */
type TupleView = {
  readonly snapshot: Snapshot
  /** What the snapshot lacks. */
  readonly gaps: readonly Gap[]
  readonly view: View
  readonly grants: Grants
  /** The digest of the keys that the reader sees; empty for none. */
  readonly secret: string
}

const MOST_VIEWS = 2_000

type Stands = Layer['stands']

const ALWAYS: Stands = () => true

/** Wraps a snapshot so that it can be viewed. */
function hold(snapshot: Snapshot, gaps: readonly Gap[], filtered: ViewCache, stands: Stands): Layer {
  const whole = createRecent<View>(MOST_VIEWS) // views of everything share the snapshot's own column
  const secrets = createRecent<string>(MOST_VIEWS)

  const viewKey = ({ tuple }: Criteria, { visibility, wholeOnly }: Reader) =>
    `${wholeOnly ? 'whole' : visibility} ${tuple}`
  const secretKey = (view: string, name: string) => `${name.length} ${name} ${view}`
  /** Of who was answered last: a request asks several times, and a walk with each page. */
  let last: { criteria: Criteria; reader: Reader; grants: Grants } | undefined

  const viewAt = (key: string) => whole.get(key) ?? filtered.get(snapshot.id, key)

  function keep(key: string, view: View): void {
    if (view.entries === snapshot.shown) whole.set(key, view)
    else filtered.set(snapshot.id, key, view)
  }

  function grantsOf(criteria: Criteria, reader: Reader): Grants {
    if (last?.criteria !== criteria || last.reader !== reader) {
      last = { criteria, reader, grants: createGrants(snapshot, reader, criteria) }
    }
    return last.grants
  }

  /** The view that was made earlier. */
  function seen(criteria: Criteria, reader: Reader): TupleView | undefined {
    const key = viewKey(criteria, reader)
    const view = viewAt(key)
    if (!view) return undefined
    const grants = grantsOf(criteria, reader)
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

  return { snapshot, gaps, stands, see, seeing, knows }
}

type LayerOptions = {
  name: string
  replaced: ReplacedSnapshots
  filtered: ViewCache
  /** Public snapshots are built on one another; those of an account are built on the public ones. */
  isBuiltOn: boolean
}

/** Without a snapshot at first. */
function createLayer({ name, replaced, filtered, isBuiltOn }: LayerOptions) {
  let current: Layer | undefined

  function replace(next: Layer | undefined, now: number): void {
    if (current) replaced.put({ layer: name, held: current, at: now }, next?.snapshot, isBuiltOn)
    current = next
  }

  return {
    /** Replaces the current snapshot. */
    publish: (snapshot: Snapshot, gaps: readonly Gap[], now: number, stands = ALWAYS) =>
      replace(hold(snapshot, gaps, filtered, stands), now),
    /** Forgets this snapshot, also for walks; false when it is not the current one any more. */
    drop(layer: Layer): boolean {
      if (current !== layer) return false
      current = undefined
      return true
    },
    /** Ends the layer; walks in its retained snapshots continue. */
    withdraw: (now: number) => replace(undefined, now),
    /** The current or retained snapshot with that id; undefined when it is gone, or was made for another account. */
    find: (id: string, now: number): Layer | undefined =>
      current?.snapshot.id === id && current.stands() ? current : replaced.find(name, id, now),
    /** Undefined as well when it was made for another account. */
    current: () => (current?.stands() ? current : undefined),
  }
}

/** A snapshot of another process; `stands`: absent in the public layer. */
type Restored = { snapshot: Snapshot; gaps: readonly Gap[]; stands?: Stands }

/** What is published together with a public snapshot. */
export type Publication = {
  /** What the public snapshot lacks. */
  gaps?: readonly Gap[]
  /** By account name: accounts whose answers differ from the public snapshot. */
  accounts?: ReadonlyMap<string, { snapshot: Snapshot; gaps: readonly Gap[] }>
  /** Whether the account behind a name is still the one for which this generation was made. */
  isCurrent?(account: string): boolean
}

/**
 * The state that one reader is answered from, as it was published at one moment. A long answer stays with it whatever
 * is published meanwhile: if it began again for each new state, it might never end.
 */
export type Moment = {
  readonly open: Layer
  /** The account's layer, when it differs from the public one. */
  readonly own: Layer | undefined
  /** The reader's account name now stands for another account. */
  isOther(): boolean
}

/** The layer that answers, and its scope. */
export type Answering = { shown: TupleView; scope: CacheScope }

export const OTHER_ACCOUNT: Gap = { kind: 'other_account' }
/** The name of the layer of everybody. */
export const EVERYBODY = ''

/**
 * The account's layer, but only when its answer for this tuple differs from the public one (docs/decisions.md#callers).
 */
export function answeringAt({ open, own, isOther }: Moment, criteria: Criteria, reader: Reader): Answering {
  const everybodys = open.see(criteria, reader)
  if (isOther()) {
    return { shown: { ...everybodys, gaps: [...everybodys.gaps, OTHER_ACCOUNT] }, scope: 'account' }
  }
  const overlay = own?.see(criteria, reader)
  if (!overlay) return { shown: everybodys, scope: 'public' }
  const same =
    everybodys.view.structure === overlay.view.structure &&
    everybodys.view.pricing === overlay.view.pricing &&
    everybodys.secret === overlay.secret &&
    !isUnconfirmed(overlay.gaps)
  return same ? { shown: everybodys, scope: 'public' } : { shown: overlay, scope: 'account' }
}

/** Without snapshots at first. `retain`: how long those that walks still use are kept after their replacement. */
export function createLayers(retain: SnapshotRetention) {
  const replaced = createReplaced(retain)
  const filtered = createViewCache()
  const publicLayer = createLayer({ name: EVERYBODY, replaced, filtered, isBuiltOn: true })
  const overlays = new Map<string, ReturnType<typeof createLayer>>()
  const inUse = new Set<Moment>()
  let isCurrent = (_account: string) => true

  const overlayOf = (account: string | undefined) =>
    account === undefined ? undefined : overlays.get(account)

  /** Makes a generation the current one in one step: the public snapshot and those of all accounts. `now` in ms. */
  function publish(snapshot: Snapshot, now: number, publication: Publication): void {
    const { gaps = [], accounts = new Map() } = publication
    for (const { open, own } of inUse) {
      replaced.walk(open.snapshot)
      if (own) replaced.walk(own.snapshot)
    }
    const isStill = publication.isCurrent ?? ALWAYS
    isCurrent = isStill
    publicLayer.publish(snapshot, gaps, now)
    for (const [account, layer] of overlays) {
      if (accounts.has(account)) continue
      layer.withdraw(now)
      overlays.delete(account)
    }
    for (const [account, own] of accounts) {
      const layer =
        overlays.get(account) ?? createLayer({ name: account, replaced, filtered, isBuiltOn: false })
      overlays.set(account, layer)
      layer.publish(own.snapshot, own.gaps, now, () => isStill(account))
    }
  }

  /** The state that the reader is answered from now; undefined until the first generation is published. */
  function moment({ account }: Reader): Moment | undefined {
    const open = publicLayer.current()
    const isStill = isCurrent // the check that belongs to this generation
    return (
      open && {
        open,
        own: overlayOf(account)?.current(),
        isOther: () => account !== undefined && !isStill(account),
      }
    )
  }

  return {
    publish,
    /** Forgets this public snapshot, also for walks; false when it is not the current one any more. */
    drop: publicLayer.drop,
    moment,
    /** Whether the account is still the one for which the current generation was made. */
    isCurrent: (account: string) => isCurrent(account),
    /** The current layer of an account, if it has one; without a name, the public layer. */
    current: (account?: string) =>
      account === undefined ? publicLayer.current() : overlayOf(account)?.current(),
    /** The current or retained snapshot with that id. */
    find: (id: string, now: number) => publicLayer.find(id, now),
    findOwn: (account: string, id: string, now: number) =>
      overlayOf(account)?.find(id, now) ?? replaced.find(account, id, now),
    /** Adds a snapshot of another process where walks in its layer find it; the public layer has no name. */
    restore(name: string, { snapshot, gaps, stands = ALWAYS }: Restored, now: number): void {
      const layer = name === EVERYBODY ? publicLayer : overlays.get(name)
      if ((layer?.find(snapshot.id, now) ?? replaced.find(name, snapshot.id, now)) !== undefined) return
      replaced.restore(name, hold(snapshot, gaps, filtered, stands), layer?.current()?.snapshot, now)
    },
    /** A cursor into the snapshot was given. */
    walk: replaced.walk,
    /** Replaced snapshots that walks still use, and the memory that only they hold. */
    retained: replaced.state,
    /** Retains the snapshots of an answer in progress, so that its walk can continue in them after a replacement. */
    use(moment: Moment): () => void {
      inUse.add(moment)
      return () => void inUse.delete(moment)
    },
  }
}
