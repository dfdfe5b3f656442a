/**
 * What upstreams ask of a storage, which the store room gives. Durable named bytes, where slices, the roster and provider
 * documents outlive the process: files when embedded, rows in PostgreSQL when shared. And how processes that share one divide
 * what has to be read, and tell each other what came of it: PostgreSQL does that; a process alone on its storage has every turn
 * and nobody to tell.
 */

/** Bytes that may still be read. */
export type Coming = {
  /** Whether they came as they were written: none of them may be used before that is known. */
  isWhole: Promise<boolean>
  /** Reads them before all others of their blob that are not begun: somebody waits for them. */
  hasten(): void
}

/** A part that may still be read. */
export type BegunPart = Coming & { bytes: Uint8Array }

/** Parts that are there already. */
export const begunParts = (parts: readonly Uint8Array[]): BegunPart[] =>
  parts.map((bytes) => ({ bytes, isWhole: Promise.resolve(true), hasten() {} }))

/** Resolves when all of them are read, or when that cannot be. */
export const areWhole = async (parts: readonly Coming[]): Promise<boolean> =>
  !(await Promise.all(parts.map(({ isWhole }) => isWhole))).includes(false)

/** Named bytes. A blob may be in parts, which come back as they were written. */
export type Blobs = {
  /** The parts as they were written, or undefined when there is no such blob or it is damaged. */
  read(name: string): Promise<Uint8Array[] | undefined>
  /** Replaces the blob whole or not at all. Rejects when the storage cannot take it. */
  write(name: string, parts: readonly Uint8Array[]): Promise<void>
  remove(name: string): Promise<void>
  /** Names that start with `prefix`, sorted. */
  list(prefix: string): Promise<string[]>
}

/** Where a large blob is used while it is read. */
export type BegunBlobs = Blobs & {
  /** As `read`, before all parts are read; they come in their order, unless one is hastened. */
  begin(name: string): Promise<BegunPart[] | undefined>
}

/** Where one of several processes decides for all: the name is given once. */
export type AddedBlobs = BegunBlobs & {
  /** Writes the blob unless there is one of that name already: of several writers at once one succeeds. */
  add(name: string, parts: readonly Uint8Array[]): Promise<void>
}

/**
 * Blobs that end with the process, for commands that look and leave no trace: what is written goes to memory, what is not
 * there is read from `beneath`, which is never written to.
 */
export function createPassingBlobs(beneath?: Pick<Blobs, 'read' | 'list'>): BegunBlobs {
  const held = new Map<string, readonly Uint8Array[] | undefined>()

  async function read(name: string): Promise<Uint8Array[] | undefined> {
    const parts = held.get(name)
    if (parts) return [...parts]
    return held.has(name) ? undefined : beneath?.read(name)
  }

  return {
    read,
    async begin(name) {
      const parts = await read(name)
      return parts && begunParts(parts)
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

/** The right of this process to do a piece of work. It ends when another process takes the work up. */
export type Turn = { name: string; epoch: number }

/** The form of a process that tells none: one of an earlier release, or one that has just come. */
export const UNSAID = 0

/** `order`: the number of the word, which later words exceed. */
export type Hear = (name: string, value: unknown, ageMs: number, order: number) => void

/** What is told under a name. */
export type Word = { name: string; value: unknown }

export type Sharing = {
  /**
   * All pieces of work of a kind that some process has to do. To be called again whenever they change. What no process with an older
   * configuration has taken, which may not know of it, one of those with the newest takes.
   */
  want(kind: string, names: Iterable<string>): void
  /** The same, for work of those processes alone that run the newest configuration and write snapshots of our form. */
  lead(kind: string, names: Iterable<string>): void
  /** Whether no live process runs a newer configuration, which may name agents that this one's does not. */
  isNewest(): boolean
  /** The forms of snapshots that live processes write and read; `UNSAID` while one of them has not told its form. */
  forms(): ReadonlySet<number>
  /** Undefined when the work is another process's. */
  turn(name: string): Turn | undefined
  /** Called when work has come to this process, or gone from it. */
  onTurns(listener: () => void): void
  /** Leaves work that this process cannot do, and perhaps another can, to the others. Never rejects. */
  pass(name: string): Promise<void>
  /** Tells all processes, this one included; under a turn only while it stands. Never rejects: false when it was not told. */
  tell(name: string, value: unknown, under?: Turn): Promise<boolean>
  /**
   * What was told under a name is there for processes that join, for a week from now: to be called again while it holds. Never
   * rejects.
   */
  keep(name: string): Promise<void>
  /** Hears the latest word under each name that begins so, and how long ago it was told. */
  hear(prefix: string, listener: Hear): void
  /** Resolves when what was told so far is heard; false when it cannot be for now. */
  heard(): Promise<boolean>
  /**
   * Replaces a blob while the turn stands, and tells all processes of it in the same step; false when it does not stand. Rejects when
   * the storage cannot take it.
   */
  write(blob: string, parts: readonly Uint8Array[], under: Turn, word?: Word): Promise<boolean>
  /** Removes a blob while the turn stands. Rejects when the storage cannot do it. */
  remove(blob: string, under: Turn): Promise<void>
  /** Bytes that the storage is rid of with each of these blobs, when those before it have gone. */
  freed(blobs: readonly string[]): Promise<number[]>
}

export type Turns = Pick<Sharing, 'want' | 'lead' | 'isNewest' | 'turn' | 'onTurns'>

/** Of a process that is alone. */
export const EVERY_TURN: Turns = {
  want() {},
  lead() {},
  isNewest: () => true,
  turn: (name) => ({ name, epoch: 0 }),
  onTurns() {},
}
