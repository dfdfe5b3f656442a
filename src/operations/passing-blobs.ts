/** Blobs that end with the process: for commands that look and leave no trace. */
import type { Blobs } from '../upstreams/blobs.js'

/** What is written goes to memory; what is not there is read from `beneath`, which is never written to. */
export function createPassingBlobs(beneath?: Pick<Blobs, 'read' | 'list'>): Blobs {
  const held = new Map<string, readonly Uint8Array[] | undefined>()
  return {
    async read(name) {
      const parts = held.get(name)
      if (parts) return [...parts]
      return held.has(name) ? undefined : beneath?.read(name)
    },
    async write(name, parts) {
      held.set(name, parts)
    },
    async remove(name) {
      held.set(name, undefined)
    },
    async list(prefix) {
      const below = new Set((await beneath?.list(prefix)) ?? [])
      for (const [name, parts] of held) {
        if (parts && name.startsWith(prefix)) below.add(name)
        else below.delete(name)
      }
      return [...below].sort()
    },
  }
}
