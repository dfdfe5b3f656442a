/**
 * Snapshots in the storage, with what each of them lacks. Where several processes share it, every one that a cursor may name
 * is there with its rows, and goes when it has been in no generation for longer than anybody walks in it. A process that is
 * alone keeps the merged feed, so that a restart takes it up instead of merging everything again. That copy is written
 * behind: when it is some minutes old there is only a little more to merge. A process that ends in order notes that its copy
 * is what it served last, so that the next one serves it at once (docs/decisions.md#a-restart-serves-what-was-served).
 */
import { createHash } from 'node:crypto'
import pLimit from 'p-limit'
import type { Gap } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import {
  columnParts,
  SNAPSHOT_FORM,
  type Snapshot,
  snapshotFrom,
  snapshotParts,
  wholeParts,
  wholeSnapshot,
} from '../snapshot/snapshot.js'
import {
  areWhole,
  type BegunBlobs,
  type BegunPart,
  type Blobs,
  type Coming,
  type Sharing,
  type Turn,
  UNSAID,
} from '../upstreams/rows/storage.js'

/** Snapshots of every form, each under its number; earlier releases put theirs where no number is. */
const FORMS = 'form/'
const EARLIER = 'snapshot/'
const placeOf = (form: number) => (form === UNSAID ? EARLIER : `${FORMS}${form}/`)
const PREFIX = `${placeOf(SNAPSHOT_FORM)}snapshot/`
/** Longer than walks go on in a snapshot that was replaced. */
const KEPT_MS = 20 * 60_000
/** The same of one that no walk reads: longer than a process takes to load it. */
const UNWALKED_MS = 5 * 60_000
/** What replaced snapshots may take of the storage: this, or more where the feed is large. */
const REPLACED_BYTES = 1024 ** 3
const REPLACED_FEEDS = 2

const FEED = 'feed'
const LAST_SERVED = 'feed-last-served'
const SAVE_AFTER_MS = 2 * 60_000
const FIRST_WITHIN_MS = 60_000 // after a start the first generation is there, which looks at the time itself
const PAUSE_MS = 15 * 60_000 // a longer pause is no restart: then all that is read from disk decides what is served

/** A gap as it is written down. */
export type ToldGap = Exclude<Gap, { kind: 'others' }> | { kind: 'others'; carried: string[] }

export const toldGap = (gap: Gap): ToldGap =>
  gap.kind === 'others' ? { ...gap, carried: [...gap.carried] } : gap
export const gapOf = (gap: ToldGap): Gap =>
  gap.kind === 'others' ? { ...gap, carried: new Set(gap.carried) } : gap

/** Nothing for the snapshot of another form. */
const idOf = (name: string) => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : '')

type Layer = { snapshot: Snapshot; gaps: readonly Gap[] }

type Kept = {
  snapshot: Snapshot
  /** By the name of the layer; the one of everybody has none. */
  gaps: ReadonlyMap<string, readonly Gap[]>
}

type SnapshotStoreOptions = {
  blobs: Blobs
  sharing: Pick<Sharing, 'write' | 'remove' | 'forms' | 'freed'>
  clock: Clock
}

/** What is in use: the snapshots of the newest generation, and those that a cursor may name. */
type InUse = { newest: ReadonlySet<string>; isWalked(id: string): boolean }

/** Snapshots that several processes share, each with what it lacks in every layer of the feed that stands on it. */
export function createSnapshotStore({ blobs, sharing, clock }: SnapshotStoreOptions) {
  const unused = new Map<string, number>() // since when
  let latest: ReadonlySet<string> = new Set() // saved last: about to be told, while the one before is the newest
  let feedBytes = 0
  const inTurn = pLimit(1) // one that comes back after a long time is written after it was removed, or not removed

  async function saved(layers: ReadonlyMap<string, Layer>, under: Turn): Promise<boolean> {
    const snapshots = new Map([...layers.values()].map(({ snapshot }) => [snapshot.id, snapshot]))
    let bytes = 0
    latest = new Set(snapshots.keys())
    for (const [id, snapshot] of snapshots) {
      const gaps = [...layers]
        .filter(([, layer]) => layer.snapshot.id === id)
        .map(([name, layer]) => [name, layer.gaps.map(toldGap)])
      const parts = [Buffer.from(JSON.stringify(gaps)), ...wholeParts(snapshot)]
      bytes += parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
      unused.delete(`${PREFIX}${id}`)
      if (!(await sharing.write(`${PREFIX}${id}`, parts, under))) return false
    }
    feedBytes = bytes
    return true
  }

  async function remove(name: string, under: Turn): Promise<void> {
    await sharing.remove(name, under)
    unused.delete(name)
  }

  /** Keeps to the bound however fast a feed changes: those that no walk reads are removed first, then the oldest. */
  async function thinned(isWalked: InUse['isWalked'], under: Turn): Promise<void> {
    const oldest = [...unused.keys()].sort((one, other) => (unused.get(one) ?? 0) - (unused.get(other) ?? 0))
    const [walked, others] = [true, false].map((is) => oldest.filter((name) => isWalked(idOf(name)) === is))
    const names = [...(others ?? []), ...(walked ?? [])]
    if (names.length === 0) return
    const freed = await sharing.freed(names)
    let bytes = freed.reduce((sum, each) => sum + each, 0)
    for (const [at, name] of names.entries()) {
      if (bytes <= Math.max(REPLACED_BYTES, feedBytes * REPLACED_FEEDS)) return
      await remove(name, under)
      bytes -= freed[at] ?? 0
    }
  }

  async function swept({ newest, isWalked }: InUse, under: Turn): Promise<void> {
    const others = [...sharing.forms()].filter((form) => form !== SNAPSHOT_FORM)
    const isAnothers = (name: string) => others.some((form) => name.startsWith(placeOf(form)))
    const all = [...(await blobs.list(FORMS)), ...(await blobs.list(EARLIER))]
    const names = new Set(all.filter((name) => !isAnothers(name)))
    const isUsed = (name: string) => newest.has(idOf(name)) || latest.has(idOf(name))
    for (const name of unused.keys()) if (!names.has(name) || isUsed(name)) unused.delete(name)
    for (const name of names) {
      if (isUsed(name)) continue
      const since = unused.get(name) ?? clock.now()
      unused.set(name, since)
      const isKept = clock.now() - since < (isWalked(idOf(name)) ? KEPT_MS : UNWALKED_MS)
      if (!isKept) await remove(name, under)
    }
    await thinned(isWalked, under)
  }

  return {
    /** Undefined when it is not there, or another release wrote it. */
    async read(id: string): Promise<Kept | undefined> {
      const [head, ...parts] = (await blobs.read(`${PREFIX}${id}`)) ?? []
      const snapshot = wholeSnapshot(parts)
      if (!head || !snapshot) return undefined
      const gaps = JSON.parse(Buffer.from(head).toString()) as [name: string, gaps: ToldGap[]][]
      return { snapshot, gaps: new Map(gaps.map(([name, of]) => [name, of.map(gapOf)])) }
    },
    /** All snapshots of a generation, by layer; false when the turn is over. Rejects when the storage cannot take them. */
    save: (layers: ReadonlyMap<string, Layer>, under: Turn) => inTurn(() => saved(layers, under)),
    /** Removes those that have been in no generation for long, and those of forms that no process reads any more. */
    sweep: (inUse: () => InUse, under: Turn) => inTurn(() => swept(inUse(), under)),
    /** From now on another process sees which are in use. */
    leave(): void {
      unused.clear()
      latest = new Set()
    },
  }
}

/** A public snapshot in service, to which no account adds anything. */
export type Served = {
  snapshot: Snapshot
  gaps: readonly Gap[]
  /** When time alone changes a verdict, ms since the epoch. */
  rebuildAt: number | undefined
}

/** As it is noted. `mark` names the copy of the feed, `revision` the configuration. */
type Note = { mark: string; revision: string; gaps: ToldGap[]; rebuildAt?: number; at: number }

/** Equal marks: a build that stands on the one finds as little to do as one that stands on the other. */
function markOf({ id, stamps, slices }: Snapshot): string {
  const digest = createHash('sha256').update(JSON.stringify([id, ...stamps]))
  for (const { slice } of slices) digest.update(slice.agentUrl).update(slice.digests)
  return digest.digest('hex')
}

/** A saved feed whose rows are still read. */
type Loaded = {
  snapshot: Snapshot
  /** Its chunks of rows. */
  chunks: readonly Coming[]
  gaps?: readonly Gap[]
}

type SavedFeedOptions = {
  blobs: BegunBlobs
  clock: Clock
  /** Names the configuration in force at the end; undefined where an operator overrides it. */
  revision(): string | undefined
  /** Told in words of what could not be read or written: then the next start merges everything. */
  onTrouble(message: string): void
}

/** The merged feed of a process that is alone on its storage. */
export function createSavedFeed({ blobs, clock, revision, onTrouble }: SavedFeedOptions) {
  let saved: string | undefined
  let latest: { snapshot: Snapshot; served: () => Served | undefined } | undefined
  let resumed: Note | undefined // what is served until this process publishes something
  let cancel: (() => void) | undefined
  let saving: Promise<void> = Promise.resolve()

  async function write(): Promise<void> {
    cancel?.()
    cancel = undefined
    const mark = latest && markOf(latest.snapshot)
    if (!latest || mark === saved) return
    saved = undefined // until it is there: an earlier copy that stays, on a full disk, is not what is served
    await blobs.write(FEED, snapshotParts(latest.snapshot))
    saved = mark
  }

  function noteNow(): Note | undefined {
    const [last, under] = [latest?.served(), revision()]
    if (!latest) return resumed?.revision === under ? resumed : undefined
    if (saved === undefined || last?.snapshot !== latest.snapshot || under === undefined) return undefined
    return {
      ...{ mark: saved, revision: under, gaps: last.gaps.map(toldGap), at: clock.now() },
      ...(last.rebuildAt !== undefined && { rebuildAt: last.rebuildAt }),
    }
  }

  async function note(): Promise<void> {
    const noted = noteNow()
    if (noted) await blobs.write(LAST_SERVED, [Buffer.from(JSON.stringify(noted))])
  }

  function inTurn(task: () => Promise<void>): void {
    saving = saving
      .then(task)
      .catch((error: Error) => onTrouble(`the feed could not be saved: ${error.message}`))
  }

  /** The note of the process before, which holds once: what this one serves is noted at its own end. */
  async function takeNote(): Promise<Note | undefined> {
    const [part] = (await blobs.read(LAST_SERVED)) ?? []
    if (part) await blobs.remove(LAST_SERVED)
    return part && (JSON.parse(Buffer.from(part).toString()) as Note)
  }

  /** Resolves when the columns are read; undefined when they are damaged, or another release wrote them. */
  async function columnsOf([head, ...others]: readonly BegunPart[]) {
    if (!head || !(await head.isWhole)) return undefined
    const columns = columnParts(head.bytes)
    if (!(await areWhole(others.slice(0, columns)))) return undefined
    const snapshot = snapshotFrom([head, ...others].map(({ bytes }) => bytes))
    return snapshot && { snapshot, rows: others.slice(columns) }
  }

  /** If it does not come whole, it is as if nothing had been saved. */
  async function chunkCame({ isWhole }: BegunPart): Promise<boolean> {
    const is = await isWhole.catch((error: Error) => {
      onTrouble(`the saved feed could not be read: ${error.message}`)
      return false
    })
    if (!is) {
      saved = undefined
      resumed = undefined
    }
    return is
  }

  /** Whether what was served then may be served now, before anything else is read. */
  function holds({ mark, rebuildAt = Number.POSITIVE_INFINITY, at }: Note): boolean {
    const now = clock.now()
    return mark === saved && now >= at && now - at < PAUSE_MS && now + FIRST_WITHIN_MS < rebuildAt
  }

  return {
    /**
     * What an earlier process saved; undefined when there is none that this release can read. Resolves when all but its rows is
     * read. With `gaps` it is what was served last under this configuration, and may be served again.
     */
    async load(under: string): Promise<Loaded | undefined> {
      try {
        const [last, parts] = await Promise.all([takeNote(), blobs.begin(FEED)])
        const read = parts && (await columnsOf(parts))
        if (!read) return undefined
        const { snapshot, rows } = read
        saved = markOf(snapshot)
        if (last?.revision === under && holds(last)) resumed = last
        const gaps = resumed && { gaps: resumed.gaps.map(gapOf) }
        return {
          snapshot,
          chunks: rows.map((part) => ({ isWhole: chunkCame(part), hasten: part.hasten })),
          ...gaps,
        }
      } catch (error) {
        onTrouble(`the saved feed could not be read: ${(error as Error).message}`)
        return undefined
      }
    },
    /**
     * The public snapshot in use: saved when it has stood for a while, or at the end. `served` says then what is served, if it
     * shows all that is known.
     */
    keep(snapshot: Snapshot, served: () => Served | undefined): void {
      latest = { snapshot, served }
      cancel ??= clock.after(SAVE_AFTER_MS, () => inTurn(write))
    },
    /** Saves what is not saved yet. */
    async close(): Promise<void> {
      inTurn(write)
      inTurn(note)
      await saving
    },
  }
}
