import { randomBytes } from 'node:crypto'
import type { AddedBlobs } from '../upstreams/rows/blobs.js'

const NAME = 'cursor-secret'

/**
 * What cursors are signed with: the same for all processes that share a storage, also for those that start at the same
 * moment, and after every restart. Rejects when the storage cannot keep it.
 */
export async function cursorSecret(blobs: AddedBlobs): Promise<Uint8Array> {
  const [known] = (await blobs.read(NAME)) ?? []
  if (known) return known
  const fresh = randomBytes(32)
  await blobs.add(NAME, [fresh])
  const [kept] = (await blobs.read(NAME)) ?? []
  if (kept) return kept
  await blobs.write(NAME, [fresh]) // there is one, and it is damaged: cursors from before are lost either way
  return fresh
}
