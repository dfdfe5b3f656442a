/**
 * The layers of the feed: the public one, and one for each account that gets prices of its own. They are published
 * together, and a reader is answered from both as they were at one moment.
 */
import { digestText } from '../snapshot/keys.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import { createViewCache } from './kept-answers.js'
import { createLayer, hold, type Layer, type ReplacedSnapshots, type TupleView } from './layer.js'
import { type CacheScope, type Gap, isUnconfirmed, type Reader, type Versions } from './query.js'
import type { View } from './view.js'

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

/** A view belongs to one tuple and visibility; the key holds everything else that a version depends on. */
const told = new WeakMap<View, Map<string, Versions>>()

/** Versions over exactly what a caller of this tuple sees, bound to the scope of the answer. */
export function versions(
  mode: string,
  { shown: tuple, scope }: Answering,
  criteria: Criteria,
  reader: Reader,
): Versions {
  const { view, secret } = tuple
  const account = scope === 'account' ? reader.account : ''
  const known = told.get(view) ?? new Map<string, Versions>()
  told.set(view, known)
  const key = `${mode} ${scope} ${account} ${secret}`
  const given = known.get(key)
  if (given) return given
  const token = (...content: string[]) =>
    digestText(JSON.stringify([mode, scope, account, reader.visibility, criteria.tuple, ...content]))
  const feedVersion = token('feed', view.structure, secret)
  // A reader who sees no prices gets no version of them: it would reveal that they changed.
  const made: Versions =
    reader.visibility === 'full'
      ? { feedVersion, pricingVersion: token('pricing', view.pricing), cacheScope: scope }
      : { feedVersion, cacheScope: scope }
  known.set(key, made)
  return made
}

/** Without snapshots at first. */
export function createLayers(replaced: ReplacedSnapshots<Layer>) {
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
    isCurrent = publication.isCurrent ?? (() => true)
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
    restore(name: string, snapshot: Snapshot, gaps: readonly Gap[], now: number): void {
      const layer = name === EVERYBODY ? publicLayer : overlays.get(name)
      if ((layer?.find(snapshot.id, now) ?? replaced.find(name, snapshot.id, now)) !== undefined) return
      replaced.restore(name, hold(snapshot, gaps, filtered), layer?.current()?.snapshot, now)
    },
    /** Retains the snapshots of an answer in progress, so that its walk can continue in them after a replacement. */
    use(moment: Moment): () => void {
      inUse.add(moment)
      return () => void inUse.delete(moment)
    },
  }
}
