/**
 * The merged feed of a process that is alone, kept on disk: a restart takes it up instead of merging everything again. It
 * is written behind: a copy that is some minutes old only leaves a little more to merge. A process that ends in
 * order notes that its copy is what it served last, so that the next one serves it at once
 * (docs/decisions.md#a-restart-serves-what-was-served).
 */
import { createHash } from 'node:crypto'
import type { Gap } from '../../feed/query.js'
import type { Clock } from '../../net/clock.js'
import type { Snapshot } from '../../snapshot/snapshot.js'
import { snapshotFrom, snapshotParts } from '../../snapshot/snapshot-parts.js'
import type { Blobs } from '../../upstreams/rows/blobs.js'
import { gapOf, type ToldGap, toldGap } from './snapshot-store.js'

const FEED = 'feed'
const LAST_SERVED = 'feed-last-served'
const SAVE_AFTER_MS = 2 * 60_000
const FIRST_WITHIN_MS = 60_000 // after a start the first generation is there, which looks at the time itself
const PAUSE_MS = 15 * 60_000 // a longer pause is no restart: then all that is read from disk decides what is served

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

type SavedFeedOptions = {
  blobs: Blobs
  clock: Clock
  /** Names the configuration in force at the end; undefined where an operator overrides it. */
  revision(): string | undefined
  /** What was served at the end, if it showed all that was known. */
  served(): Served | undefined
  /** Told in words of what could not be read or written: then the next start merges everything. */
  onTrouble(message: string): void
}

export function createSavedFeed({ blobs, clock, revision, served, onTrouble }: SavedFeedOptions) {
  let saved: string | undefined
  let latest: Snapshot | undefined
  let cancel: (() => void) | undefined
  let saving: Promise<void> = Promise.resolve()

  async function write(): Promise<void> {
    cancel?.()
    cancel = undefined
    const mark = latest && markOf(latest)
    if (!latest || mark === saved) return
    await blobs.write(FEED, snapshotParts(latest))
    saved = mark
  }

  async function note(): Promise<void> {
    if (!latest || saved === undefined) return
    const [last, under] = [served(), revision()]
    if (last?.snapshot !== latest || under === undefined) return
    const noted: Note = {
      ...{ mark: saved, revision: under, gaps: last.gaps.map(toldGap), at: clock.now() },
      ...(last.rebuildAt !== undefined && { rebuildAt: last.rebuildAt }),
    }
    await blobs.write(LAST_SERVED, [Buffer.from(JSON.stringify(noted))])
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

  /** Whether what was served then may be served now, before anything else is read. */
  function holds({ mark, rebuildAt = Number.POSITIVE_INFINITY, at }: Note): boolean {
    const now = clock.now()
    return mark === saved && now >= at && now - at < PAUSE_MS && now + FIRST_WITHIN_MS < rebuildAt
  }

  return {
    /**
     * What an earlier process saved; undefined when there is none that this release can read. With `gaps` it is what
     * was served last under this configuration, and may be served again.
     */
    async load(under: string): Promise<{ snapshot: Snapshot; gaps?: readonly Gap[] } | undefined> {
      try {
        const last = await takeNote()
        const parts = await blobs.read(FEED)
        const snapshot = parts && snapshotFrom(parts)
        saved = snapshot && markOf(snapshot)
        return (
          snapshot && {
            snapshot,
            ...(last?.revision === under && holds(last) && { gaps: last.gaps.map(gapOf) }),
          }
        )
      } catch (error) {
        onTrouble(`the saved feed could not be read: ${(error as Error).message}`)
        return undefined
      }
    },
    /** The public snapshot in use: saved when it has stood for a while, or at the end. */
    keep(snapshot: Snapshot): void {
      latest = snapshot
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
