/** What processes on one storage share of the cursors that they give: what signs them, and which snapshots they name. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { AddedBlobs, Sharing } from '../../upstreams/rows/storage.js'

const CURSOR_SECRET = 'cursor-secret'
const MOST_SNAPSHOTS = 500 // snapshots of one process
const MOST_PROCESSES = 100 // those that were heard last

/**
 * What cursors are signed with: the same for all processes that share a storage, also for those that start at the same
 * moment, and after every restart. Rejects when the storage cannot keep it.
 */
export async function cursorSecret(blobs: AddedBlobs): Promise<Uint8Array> {
  const [known] = (await blobs.read(CURSOR_SECRET)) ?? []
  if (known) return known
  const fresh = randomBytes(32)
  await blobs.add(CURSOR_SECRET, [fresh])
  const [kept] = (await blobs.read(CURSOR_SECRET)) ?? []
  if (kept) return kept
  await blobs.write(CURSOR_SECRET, [fresh]) // there is one, and it is damaged: cursors from before are lost either way
  return fresh
}

/**
 * The snapshots that cursors name: those that this process gave, and what the others on the same storage say of theirs. `prefix`: of
 * the notes in which they tell each other.
 */
export function createWalks(sharing: Pick<Sharing, 'tell' | 'hear'>, prefix: string) {
  const name = `${prefix}${randomUUID()}`
  const own = new Set<string>()
  const others = new Map<string, ReadonlySet<string>>()
  let untold = false
  let isTelling = false
  sharing.hear(prefix, (from, value) => {
    others.delete(from)
    others.set(from, new Set(value as string[]))
    const [first] = others.keys()
    if (others.size > MOST_PROCESSES && first !== undefined) others.delete(first)
  })

  async function told(): Promise<void> {
    isTelling = true
    let failed = false
    while (untold && !failed) {
      untold = false
      failed = !(await sharing.tell(name, [...own]))
    }
    untold ||= failed
    isTelling = false
  }

  /** Tells the others what they were not told yet. */
  function tell(): void {
    if (untold && !isTelling) void told()
  }

  return {
    tell,
    /** A cursor into the snapshot is given. */
    note(id: string): void {
      if (own.has(id)) return
      own.add(id)
      const [first] = own
      if (own.size > MOST_SNAPSHOTS && first !== undefined) own.delete(first)
      untold = true
      tell()
    },
    has: (id: string): boolean => own.has(id) || [...others.values()].some((ids) => ids.has(id)),
  }
}
