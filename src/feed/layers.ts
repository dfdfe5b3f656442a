/**
 * The layers of the feed: what everybody is answered from, and what the accounts are that pay prices of their own. They are
 * published together, and a reader is answered from both as they were at one moment.
 */
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import { createViewCache } from './kept-answers.js'
import { createLayer, hold, type Layer, type ReplacedSnapshots, type TupleView } from './layer.js'
import { type CacheScope, type Gap, isUnconfirmed, type Reader } from './query.js'

/** What is published with a public snapshot. */
export type Publication = {
  /** What the public snapshot lacks. */
  gaps?: readonly Gap[]
  /** By name: those that are not simply answered from the public snapshot. */
  accounts?: ReadonlyMap<string, { snapshot: Snapshot; gaps: readonly Gap[] }>
  /** Whether an account is still the one that this was put together for. */
  isCurrent?(account: string): boolean
}

/**
 * What one reader is answered from, as it was published at one moment. An answer that takes long stays with it, whatever is
 * published meanwhile: begun again on each new state of the feed, it might never be given.
 */
export type Moment = {
  readonly open: Layer
  /** What its account is answered from, where that is not simply the public snapshot. */
  readonly own: Layer | undefined
  /** By now another account goes by the name of the reader's. */
  isOther(): boolean
}

/** What is answered from, and in which scope. */
export type Answering = { shown: TupleView; scope: CacheScope }

export const OTHER_ACCOUNT: Gap = { kind: 'other_account' }
const PUBLIC = ''

/** The overlay only where its answer for this tuple differs from the public one (docs/decisions.md#callers). */
export function answeringAt({ open, own, isOther }: Moment, criteria: Criteria, reader: Reader): Answering {
  const everybodys = open.see(criteria, reader)
  const overlay = own?.see(criteria, reader)
  if (isOther()) {
    const tuple = overlay ?? everybodys
    return { shown: { ...tuple, gaps: [...tuple.gaps, OTHER_ACCOUNT] }, scope: 'account' }
  }
  if (!overlay) return { shown: everybodys, scope: 'public' }
  const same =
    everybodys.view.structure === overlay.view.structure &&
    everybodys.view.pricing === overlay.view.pricing &&
    everybodys.secret === overlay.secret &&
    !isUnconfirmed(overlay.gaps)
  return same ? { shown: everybodys, scope: 'public' } : { shown: overlay, scope: 'account' }
}

export function createLayers(replaced: ReplacedSnapshots<Layer>) {
  const filtered = createViewCache()
  const publicLayer = createLayer({ name: PUBLIC, replaced, filtered, isBuiltOn: true })
  const overlays = new Map<string, ReturnType<typeof createLayer>>()
  const inUse = new Set<Moment>()
  let isCurrent = (_account: string) => true

  const overlayOf = (account: string | undefined) =>
    account === undefined ? undefined : overlays.get(account)

  /** Makes one generation the current one, at once: the public snapshot and every account's that has one. `now` in ms. */
  function publish(snapshot: Snapshot, now: number, beside: Publication): void {
    const { gaps = [], accounts = new Map() } = beside
    for (const { open, own } of inUse) {
      replaced.walk(open.snapshot)
      if (own) replaced.walk(own.snapshot)
    }
    isCurrent = beside.isCurrent ?? (() => true)
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
      layer.publish(own.snapshot, own.gaps, now)
    }
  }

  /** What the reader is answered from now; undefined until the first generation is published. */
  function moment({ account }: Reader): Moment | undefined {
    const open = publicLayer.current()
    const isStill = isCurrent // as it was put together for this generation
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
    moment,
    /** Whether an account is still the one that the current generation was put together for. */
    isCurrent: (account: string) => isCurrent(account),
    /** The current layer of an account that has one; of everybody without a name. */
    current: (account?: string) =>
      account === undefined ? publicLayer.current() : overlayOf(account)?.current(),
    /** The current or retained snapshot of that id. */
    find: (id: string, now: number) => publicLayer.find(id, now),
    findOwn: (account: string, id: string, now: number) =>
      overlayOf(account)?.find(id, now) ?? replaced.find(account, id, now),
    /** Puts a snapshot of another process where walks of a layer find it; the public one has no name. */
    restore(name: string, snapshot: Snapshot, now: number): void {
      const current = name === PUBLIC ? publicLayer.current() : overlayOf(name)?.current()
      replaced.restore(name, hold(snapshot, [], filtered), current?.snapshot, now)
    },
    /** While an answer is worked out, its walk has to find the snapshot again, should that be replaced. */
    use(moment: Moment): () => void {
      inUse.add(moment)
      return () => void inUse.delete(moment)
    },
  }
}
