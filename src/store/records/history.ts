/**
 * What happened, for people who ask later: what operators did, who did it and when; and how signals of the feed changed, when a price
 * moved or who left. Bounded: the oldest rows are deleted.
 */
import { randomUUID } from 'node:crypto'
import type { Db, SignalChangeTable } from '../database/database.js'

const MOST_ENTRIES = 10_000
const MOST_CHANGES = 100_000
const SWEEP_EVERY = 1_000 // rows written: the table is at most so much longer than it may be
const BATCH_ROWS = 500 // of one statement: well under the bound-parameter limits of both databases

export type AuditEntry = {
  who: string
  action: string
  /** The upstream or caller that it concerns. */
  subject: string
  /** `done`, or why it failed. */
  outcome: string
}

export type Audit = {
  note(entry: AuditEntry): Promise<void>
  /** The newest entries, newest first; `at` in ms since the epoch. */
  last(limit: number): Promise<(AuditEntry & { at: number })[]>
}

/** `now`: ms since the epoch. */
export function createAudit(db: Db, now: () => number): Audit {
  let noted = 0
  /** In the order of their entries, which may be of one millisecond. */
  const nextId = () => `${String(++noted).padStart(15, '0')}-${randomUUID()}`

  return {
    async note(entry) {
      await db
        .insertInto('audit')
        .values({ id: nextId(), at: now(), ...entry })
        .execute()
      const excess = db.selectFrom('audit').select('at').orderBy('at', 'desc').limit(1).offset(MOST_ENTRIES)
      await db.deleteFrom('audit').where('at', '<=', excess).execute()
    },
    async last(limit) {
      const rows = await db
        .selectFrom('audit')
        .selectAll()
        .orderBy('at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
      return rows.map(({ id: _, at, ...entry }) => ({ ...entry, at: Number(at) }))
    },
  }
}

/** `at` in ms since the epoch; `many`: so many signals changed at once that it is not known which. */
export type SignalChange = Pick<SignalChangeTable, 'at' | 'kind'> & {
  told: Readonly<Record<string, unknown>>
}

export type SignalChanges = {
  /** The handle of the signal; empty for `many`. */
  note(changes: readonly (SignalChange & { handle: string })[]): Promise<void>
  /** The last changes of a signal, and since the first of them those of many signals; oldest first. */
  of(handle: string, limit: number): Promise<SignalChange[]>
}

export function createSignalChanges(db: Db): SignalChanges {
  let unswept = SWEEP_EVERY // the table of an earlier process is looked at with the first rows

  const last = (handle: string, limit: number) =>
    db
      .selectFrom('signal_changes')
      .selectAll()
      .where('handle', '=', handle)
      .orderBy('at', 'desc')
      .orderBy('id')
      .limit(limit)

  return {
    async note(changes) {
      for (let from = 0; from < changes.length; from += BATCH_ROWS) {
        const rows = changes
          .slice(from, from + BATCH_ROWS)
          .map(({ told, ...change }) => ({ id: randomUUID(), ...change, told: JSON.stringify(told) }))
        await db.insertInto('signal_changes').values(rows).execute()
      }
      unswept += changes.length
      if (unswept < SWEEP_EVERY) return
      unswept = 0
      const excess = db
        .selectFrom('signal_changes')
        .select('at')
        .orderBy('at', 'desc')
        .limit(1)
        .offset(MOST_CHANGES)
      await db.deleteFrom('signal_changes').where('at', '<=', excess).execute()
    },
    async of(handle, limit) {
      const own = await last(handle, limit).execute()
      const since = Number(own.at(-1)?.at ?? 0)
      const many = await last('', limit).where('at', '>', since).execute()
      return [...own, ...many]
        .map(({ at, kind, told }) => ({
          at: Number(at),
          kind,
          told: JSON.parse(told) as SignalChange['told'],
        }))
        .sort((one, other) => one.at - other.at)
        .slice(-limit)
    },
  }
}
