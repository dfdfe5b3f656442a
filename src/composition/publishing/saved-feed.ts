/**
 * Keeps the merged feed of a process that is alone on disk, so that a restart takes it up instead of merging everything
 * again. It is written behind: a copy that is some minutes old only leaves a little more to merge.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '../../net/clock.js'
import type { Snapshot } from '../../snapshot/snapshot.js'
import { snapshotFrom, snapshotParts } from '../../snapshot/snapshot-parts.js'
import type { Blobs } from '../../upstreams/rows/blobs.js'

const SAVED_FEED = 'feed'
const SAVE_AFTER_MS = 2 * 60_000

/** Equal marks: a build that stands on the one finds as little to do as one that stands on the other. */
function markOf({ id, stamps, slices }: Snapshot): string {
  const digest = createHash('sha256').update(JSON.stringify([id, ...stamps]))
  for (const { slice } of slices) digest.update(slice.agentUrl).update(slice.digests)
  return digest.digest('hex')
}

type SavedFeedOptions = {
  blobs: Blobs
  clock: Clock
  /** Told in words of what could not be read or written: then the next start merges everything. */
  onTrouble(message: string): void
}

export function createSavedFeed({ blobs, clock, onTrouble }: SavedFeedOptions) {
  let saved: string | undefined
  let latest: Snapshot | undefined
  let cancel: (() => void) | undefined
  let saving: Promise<void> = Promise.resolve()

  async function write(): Promise<void> {
    cancel?.()
    cancel = undefined
    const mark = latest && markOf(latest)
    if (!latest || mark === saved) return
    await blobs.write(SAVED_FEED, snapshotParts(latest))
    saved = mark
  }

  function save(): void {
    saving = saving
      .then(write)
      .catch((error: Error) => onTrouble(`the feed could not be saved: ${error.message}`))
  }

  return {
    /** What an earlier process saved; undefined when there is none that this release can read. */
    async load(): Promise<Snapshot | undefined> {
      try {
        const parts = await blobs.read(SAVED_FEED)
        const snapshot = parts && snapshotFrom(parts)
        saved = snapshot && markOf(snapshot)
        return snapshot
      } catch (error) {
        onTrouble(`the saved feed could not be read: ${(error as Error).message}`)
        return undefined
      }
    },
    /** The public snapshot in use: saved when it has stood for a while, or at the end. */
    keep(snapshot: Snapshot): void {
      latest = snapshot
      cancel ??= clock.after(SAVE_AFTER_MS, save)
    },
    /** Saves what is not saved yet. */
    async close(): Promise<void> {
      save()
      await saving
    },
  }
}
