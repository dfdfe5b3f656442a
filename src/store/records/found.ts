/**
 * Rows that upstreams gave in answers to questions and that the feed does not have. With them, our handles for such
 * rows still work after a restart and on another replica (docs/decisions.md#handles). Bounded: the oldest rows are
 * deleted, because asking again finds them again.
 */
import type { Db } from '../database/database.js'
import type { Seal } from '../database/seal.js'

const MOST_ROWS = 50_000
const BATCH_ROWS = 100 // seven columns each: well under the bound-parameter limits of both databases

export type FoundRow = {
  /** The handle of the signal, as we publish it. */
  handle: string
  upstream: string
  agentUrl: string
  /** `public`, or the name of the account or credential it was asked with. */
  scope: string
  /** The upstream's own name for the row. */
  segment: string
  /** JSON. */
  listing: string
}

export type FoundRows = {
  /** A row replaces the one with the same name. No two of `rows` may have one name. */
  put(rows: readonly FoundRow[]): Promise<void>
  /** The rows of these signals, in every scope. */
  read(handles: readonly string[]): Promise<FoundRow[]>
}

const nameOf = ({ handle, upstream, scope, segment }: FoundRow) =>
  JSON.stringify([handle, upstream, scope, segment])

export function createFound(db: Db, now: () => number, seal: Seal): FoundRows {
  /** Most rows hold no secret: they are stored unchanged. */
  const sealed = (listing: string) =>
    listing.includes('"activation_key"') ? seal.write(JSON.parse(listing)) : listing

  const opened = (listing: string) =>
    listing.includes('"activation_key"') ? JSON.stringify(seal.read(listing)) : listing

  async function put(rows: readonly FoundRow[]): Promise<void> {
    // Writes in one order everywhere: replicas that write the same rows wait for each other and do not deadlock.
    const ordered = [...rows].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
    for (let at = 0; at < ordered.length; at += BATCH_ROWS) {
      const batch = ordered.slice(at, at + BATCH_ROWS).map(({ agentUrl, listing, ...row }) => ({
        ...row,
        ...{ listing: sealed(listing), agent_url: agentUrl, found_at: now() },
      }))
      await db
        .insertInto('found')
        .values(batch)
        .onConflict((conflict) =>
          conflict.columns(['handle', 'upstream', 'scope', 'segment']).doUpdateSet((eb) => ({
            agent_url: eb.ref('excluded.agent_url'),
            listing: eb.ref('excluded.listing'),
            found_at: eb.ref('excluded.found_at'),
          })),
        )
        .execute()
    }
    const excess = db.selectFrom('found').select('found_at').orderBy('found_at', 'desc').limit(1)
    await db.deleteFrom('found').where('found_at', '<=', excess.offset(MOST_ROWS)).execute()
  }

  async function read(handles: readonly string[]): Promise<FoundRow[]> {
    if (handles.length === 0) return []
    const rows = await db.selectFrom('found').selectAll().where('handle', 'in', handles).execute()
    return rows.map(({ agent_url: agentUrl, found_at: _, ...row }) => ({
      ...row,
      agentUrl,
      listing: opened(row.listing),
    }))
  }

  return { put, read }
}
