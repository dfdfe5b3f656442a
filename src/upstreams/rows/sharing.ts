/**
 * How processes that share a storage divide what has to be read, and tell each other what came of it. The store room
 * implements it for PostgreSQL; a process alone on its storage has every turn and nobody to tell.
 */

/** The right of this process to do a piece of work. It ends when another process takes the work up. */
export type Turn = { name: string; epoch: number }

/** The form of a process that tells none: one of an earlier release, or one that has just come. */
export const UNSAID = 0

type Hear = (name: string, value: unknown, ageMs: number) => void

export type Sharing = {
  /** All pieces of work of a kind that some process has to do. To be called again whenever they change. */
  want(kind: string, names: Iterable<string>): void
  /** The same, for work of those processes alone that run the newest configuration and write snapshots of our form. */
  lead(kind: string, names: Iterable<string>): void
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
  /** Hears the latest word under each name that begins so, and how long ago it was told. */
  hear(prefix: string, listener: Hear): void
  /** Replaces a blob while the turn stands; false when it does not. Rejects when the storage cannot take it. */
  write(blob: string, parts: readonly Uint8Array[], under: Turn): Promise<boolean>
  /** Removes a blob while the turn stands. Rejects when the storage cannot do it. */
  remove(blob: string, under: Turn): Promise<void>
  /** Bytes that the storage is rid of with each of these blobs, when those before it have gone. */
  freed(blobs: readonly string[]): Promise<number[]>
}

export type Turns = Pick<Sharing, 'want' | 'turn' | 'onTurns'>

/** Of a process that is alone. */
export const EVERY_TURN: Turns = {
  want() {},
  turn: (name) => ({ name, epoch: 0 }),
  onTurns() {},
}
