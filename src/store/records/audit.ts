/** What operators did, who did it and when. Bounded: the oldest entries are deleted. */
import { randomUUID } from 'node:crypto'
import type { Db } from '../database/table-types.js'

const MOST_ROWS = 10_000

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
      const excess = db.selectFrom('audit').select('at').orderBy('at', 'desc').limit(1).offset(MOST_ROWS)
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
