/**
 * Rows that upstreams gave in answers to questions and that the feed does not have. With them, our handles for such
 * rows still work after a restart and on another replica (docs/decisions.md#handles). Both in memory and in the storage, rows that
 * are used no more leave when there are too many, because asking again finds them again.
 */
import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import { handleKey } from '../../merge/identity.js'
import type { Clock } from '../../net/clock.js'
import type { Db } from '../database/database.js'
import type { Seal } from '../database/seal.js'
import { StorageUnavailable } from '../database/storage-work.js'

const MOST_ROWS = 50_000
const BATCH_ROWS = 100 // seven columns each: well under the bound-parameter limits of both databases
const RECENT_BYTES = 64 * 1024 ** 2 // in memory: recent rows, which also need not be stored again
const BYTES_A_CHARACTER = 2
const OWN_BYTES = 500 // of a row, besides its listing
const WRITE_AGAIN_MS = 1_000

export type FoundRow = {
  /** The handle of the signal, as we publish it. */
  handle: string
  /** Canonical. Not the id, which may come to stand for another agent. */
  agentUrl: string
  /** `public`, or the name of the account or credential it was asked with. */
  scope: string
  /** The upstream's own name for the row. */
  segment: string
  /** JSON. */
  listing: string
  /** Its prices are told to this credential alone (its name). Absent: to everybody who is asked in the scope. */
  pricedFor?: string
}

export type FoundRows = {
  /** A row replaces the one with the same name. No two of `rows` may have one name. */
  put(rows: readonly FoundRow[]): Promise<void>
  /** The rows of these signals, in every scope. */
  read(handles: readonly string[]): Promise<FoundRow[]>
}

const nameOf = ({ handle, agentUrl, scope, segment }: FoundRow) =>
  JSON.stringify([handle, agentUrl, scope, segment])

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
      const batch = ordered.slice(at, at + BATCH_ROWS).map(({ agentUrl, listing, pricedFor, ...row }) => ({
        ...row,
        ...{ listing: sealed(listing), agent_url: agentUrl, priced_for: pricedFor ?? null, found_at: now() },
      }))
      await db
        .insertInto('found_rows')
        .values(batch)
        .onConflict((conflict) =>
          conflict.columns(['handle', 'agent_url', 'scope', 'segment']).doUpdateSet((eb) => ({
            listing: eb.ref('excluded.listing'),
            priced_for: eb.ref('excluded.priced_for'),
            found_at: eb.ref('excluded.found_at'),
          })),
        )
        .execute()
    }
    const excess = db.selectFrom('found_rows').select('found_at').orderBy('found_at', 'desc').limit(1)
    await db.deleteFrom('found_rows').where('found_at', '<=', excess.offset(MOST_ROWS)).execute()
  }

  async function read(handles: readonly string[]): Promise<FoundRow[]> {
    if (handles.length === 0) return []
    const rows = await db.selectFrom('found_rows').selectAll().where('handle', 'in', handles).execute()
    return rows.map(({ agent_url: agentUrl, priced_for: pricedFor, found_at: _, ...row }) => ({
      ...row,
      agentUrl,
      ...(pricedFor !== null && { pricedFor }),
      listing: opened(row.listing),
    }))
  }

  return { put, read }
}

type LearnedOptions = {
  found: FoundRows
  /** Whether other processes use the same storage. */
  isShared: boolean
  clock: Pick<Clock, 'after'>
  onTrouble(message: string): void
}

/** Such rows, of this process and of others on its storage: in memory at once, and in the storage soon after. */
export function createLearned({ found, isShared, clock, onTrouble }: LearnedOptions) {
  const names = new Map<string, Set<string>>() // of recent rows, by the handle of their signal
  const unwritten = new Set<string>() // names of recent rows
  const recent = new LRUCache<string, FoundRow>({
    maxSize: RECENT_BYTES,
    sizeCalculation: ({ listing }) => OWN_BYTES + BYTES_A_CHARACTER * listing.length,
    noDisposeOnSet: true,
    dispose({ handle }, name) {
      unwritten.delete(name)
      const own = names.get(handle)
      own?.delete(name)
      if (own?.size === 0) names.delete(handle)
    },
  })
  let writing: Promise<void> | undefined
  let isTold = false // a failure that lasts is told once
  let closed = false
  let cancelAgain = () => {}

  async function write(): Promise<void> {
    while (unwritten.size > 0) {
      const rows = [...unwritten].flatMap((name) => recent.peek(name) ?? [])
      unwritten.clear()
      try {
        await found.put(rows)
        isTold = false
      } catch (error) {
        if (!isTold) onTrouble(`found signals are kept in memory only: ${(error as Error).message}`)
        isTold = true
        for (const name of rows.map(nameOf)) if (recent.has(name)) unwritten.add(name)
        cancelAgain()
        if (!closed) cancelAgain = clock.after(WRITE_AGAIN_MS, () => void writeOnce())
        return
      }
    }
  }

  function writeOnce(): Promise<void> {
    writing ??= write().finally(() => {
      writing = undefined
    })
    return writing
  }

  /**
   * Remembers rows, at once. Resolves when they are in the storage or could not be written; undefined when there is
   * nothing to wait for, because no other process uses the storage or all are written.
   */
  function learn(rows: readonly FoundRow[]): Promise<void> | undefined {
    for (const row of rows) {
      const name = nameOf(row)
      if (isDeepStrictEqual(recent.get(name), row)) continue
      const { handle } = row
      names.set(handle, (names.get(handle) ?? new Set()).add(name))
      unwritten.add(name)
      recent.set(name, row)
    }
    if (unwritten.size === 0 && !writing) return undefined
    const written = writeOnce()
    return isShared ? written : undefined
  }

  async function stored(handles: readonly string[]): Promise<FoundRow[]> {
    try {
      return await found.read(handles)
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return [] // without the storage, only the rows in memory are known
    }
  }

  /**
   * The rows of these signals, without those that were given to another account. `scopesOf` gives the scope that answers the
   * reader, by the urls of the agents that are asked now.
   */
  async function rowsOf(
    handles: readonly string[],
    scopesOf: () => ReadonlyMap<string, string>,
  ): Promise<FoundRow[]> {
    const ours = handles.filter((handle) => handleKey(handle) !== undefined)
    const rows = new Map<string, FoundRow>()
    for (const row of await stored(ours)) rows.set(nameOf(row), row)
    for (const name of ours.flatMap((handle) => [...(names.get(handle) ?? [])])) {
      const row = recent.get(name)
      if (row) rows.set(name, row)
    }
    if (rows.size === 0) return []
    const scopes = scopesOf()
    return [...rows.values()].filter(({ agentUrl, scope }) => scopes.get(agentUrl) === scope)
  }

  return {
    learn,
    rowsOf,
    /** Resolves when everything learned is stored, or could not be. */
    async close(): Promise<void> {
      closed = true
      cancelAgain()
      await writing
    },
  }
}
