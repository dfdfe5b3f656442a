/**
 * Durable named bytes: where slices, the roster and provider documents outlive the process.
 * The store room implements it (files when embedded, rows in PostgreSQL when shared).
 */
export type Blobs = {
  /** The parts as they were written, or undefined when there is no such blob or it is damaged. */
  read(name: string): Promise<Uint8Array[] | undefined>
  /** Replaces the blob whole or not at all. Rejects when the storage cannot take it. */
  write(name: string, parts: readonly Uint8Array[]): Promise<void>
  remove(name: string): Promise<void>
  /** Names that start with `prefix`, sorted. */
  list(prefix: string): Promise<string[]>
}

/** Where one of several processes decides for all: the name is given once. */
export type AddedBlobs = Blobs & {
  /** Writes the blob unless there is one of that name already: of several writers at once one succeeds. */
  add(name: string, parts: readonly Uint8Array[]): Promise<void>
}

/**
 * Blobs that end with the process, for commands that look and leave no trace: what is written goes to memory, what is not
 * there is read from `beneath`, which is never written to.
 */
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
