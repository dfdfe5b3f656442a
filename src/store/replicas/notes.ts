/**
 * Notes between processes that share a storage: the latest value under each name, numbered in the order in which the values became
 * visible, so that a process that has read up to a number misses nothing after it. Others hear of them at once when the database
 * notifies, and within a second when it could not. PostgreSQL only.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../net/clock.js'
import type { Hear } from '../../upstreams/rows/storage.js'
import { type Db, POSTGRES, type Tables } from '../database/database.js'
import { type Lease, leaseStands } from './leases.js'

type Note = { name: string; seq: number; value: unknown; ageMs: number }

export type Notes = {
  /** Replaces the value under the name; with a lease only while that holds: false when it does not. */
  tell(name: string, value: unknown, lease?: Lease): Promise<boolean>
  /** The notes after that number, in order. */
  since(seq: number): Promise<Note[]>
  /** Makes a note count as told now, for `forgetOld`. */
  keep(name: string): Promise<void>
  /** Deletes notes that are so old that every live process has read them, and that nobody keeps. */
  forgetOld(): Promise<void>
}

/** PostgreSQL tells listeners on it of every note. */
export const CHANNEL = 'tributary_notes'
/** The note in which a process names pieces of blobs (pieces.ts) that it could not read. */
export const LACKING = 'storage/lacking'

const SEQUENCE = sql`pg_get_serial_sequence('notes', 'seq')`
const TURN = 7_309_453 // any number that no other advisory lock of ours has
const FORGOTTEN_AFTER_MS = 7 * 24 * 60 * 60 * 1_000
const FORGET_EVERY_MS = 60 * 60 * 1_000
const LOOK_EVERY_MS = 1_000

/** Part of a transaction, its last statement: until it ends, no other process writes a note. */
export async function told(tx: Db, name: string, value: unknown): Promise<void> {
  // One after the other to their commits: else a lower number could become visible after a higher one was read.
  await sql`select pg_advisory_xact_lock(${TURN})`.execute(tx)
  // With time, as epochs do: a storage that is put back while processes run would give numbers again that they have read.
  await sql`insert into notes (name, seq, value, told_at)
    values (${name}, setval(${SEQUENCE}, greatest(nextval(${SEQUENCE}), ${POSTGRES.now()})), ${JSON.stringify(value)},
      ${POSTGRES.now()})
    on conflict (name) do update set seq = excluded.seq, value = excluded.value, told_at = excluded.told_at`.execute(
    tx,
  )
  await sql`select pg_notify(${CHANNEL}, '')`.execute(tx)
}

export function createNotes(db: Kysely<Tables>): Notes {
  return {
    tell: (name, value, lease) =>
      db.transaction().execute(async (tx) => {
        if (lease && !(await leaseStands(tx, lease))) return false
        await told(tx, name, value)
        return true
      }),
    async since(seq) {
      const rows = await db
        .selectFrom('notes')
        .select(['name', 'seq', 'value', sql<number>`${POSTGRES.now()} - told_at`.as('ageMs')])
        .where('seq', '>', seq)
        .orderBy('seq')
        .execute()
      return rows.map(({ value, ...note }) => ({ ...note, value: JSON.parse(value) as unknown }))
    },
    async keep(name) {
      await db
        .updateTable('notes')
        .set({ told_at: sql<number>`${POSTGRES.now()}` })
        .where('name', '=', name)
        .execute()
    },
    async forgetOld() {
      await db
        .deleteFrom('notes')
        .where('told_at', '<', sql<number>`${POSTGRES.now()} - ${FORGOTTEN_AFTER_MS}`)
        .execute()
    },
  }
}

type BoardOptions = {
  notes: Notes
  /** Calls back whenever there may be new notes. Returns a function that stops it. */
  listen(onNews: () => void): () => Promise<void>
  clock: Clock
  /** Receives what an operator should know. */
  onProblem(problem: string): void
}

/**
 * Reads the other processes' notes: at once when the database notifies, and within a second when it could not. It hears nothing
 * before `start`, and repeats nothing for listeners that come later.
 */
export function createBoard({ notes, listen, clock, onProblem }: BoardOptions) {
  const listeners: { prefix: string; listener: Hear }[] = []
  let last = 0
  let isLost = false
  let closed = false
  let looking: Promise<void> | undefined // until nobody has called meanwhile
  let oneLook: Promise<void> | undefined // the one that is under way
  let again = false
  let forgottenAt = 0
  let cancelLook = () => {}
  let stopListening = async () => {}

  function trouble(error: unknown): void {
    if (!isLost) onProblem(`other replicas cannot be heard: ${(error as Error).message}`)
    isLost = true
  }

  async function look(): Promise<void> {
    const fresh = await notes.since(last)
    isLost = false
    if (closed) return
    for (const { name, seq, value, ageMs } of fresh) {
      last = seq
      for (const { prefix, listener } of listeners)
        if (name.startsWith(prefix)) listener(name, value, ageMs, seq)
    }
    if (forgottenAt + FORGET_EVERY_MS > clock.now()) return
    forgottenAt = clock.now()
    await notes.forgetOld()
  }

  /** Reads now, or once more after a reading that has begun; resolves when that is done. */
  async function round(): Promise<void> {
    if (closed) return
    if (looking) {
      again = true
      return looking
    }
    cancelLook()
    looking = (async () => {
      do {
        again = false
        oneLook = look().catch(trouble)
        await oneLook
      } while (again && !closed)
      looking = undefined
    })()
    await looking
    if (!closed && !looking) cancelLook = clock.after(LOOK_EVERY_MS, () => void round())
  }

  return {
    async tell(name: string, value: unknown, lease?: Lease): Promise<boolean> {
      try {
        return await notes.tell(name, value, lease)
      } catch (error) {
        trouble(error)
        return false
      }
    },
    keep: (name: string): Promise<void> => notes.keep(name).catch(trouble),
    hear(prefix: string, listener: Hear): void {
      listeners.push({ prefix, listener })
    },
    /** Resolves when all notes that are there now are read: not when those are that come meanwhile. False when they cannot be for now. */
    async heard(): Promise<boolean> {
      if (!looking) await round()
      else {
        again = true
        await oneLook // it may have begun before some of them came
        await oneLook // the next one
      }
      return !isLost
    },
    /** Reads from now on; resolves when all earlier notes are read. */
    async start(): Promise<void> {
      stopListening = listen(() => void round())
      await round()
    },
    async close(): Promise<void> {
      closed = true
      cancelLook()
      await stopListening()
      await looking
    },
  }
}
