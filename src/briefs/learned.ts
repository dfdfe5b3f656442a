/**
 * Rows of earlier answers that no mirrored slice has, kept so that handles in those answers can be activated and looked up
 * (docs/decisions.md#handles). They are in memory at once and in the storage soon after. They are merged and authorized
 * anew at each use, so they show nothing that the feed would withhold now.
 */

import type { Reader } from '../feed/query.js'
import { createRecent } from '../memory/recent.js'
import { handleKey } from '../merge/identity.js'
import type { Clock } from '../net/clock.js'
import { StorageUnavailable } from '../store/database/unavailable.js'
import type { FoundRow, FoundRows } from '../store/records/found.js'
import { foundSlice } from '../upstreams/fanout.js'
import { readRows } from '../upstreams/rows/read-rows.js'
import type { Slice } from '../upstreams/rows/slice.js'

const MOST_SIGNALS = 10_000 // in memory: recent rows, which also need not be stored again
const MOST_UNWRITTEN = 10_000
const WRITE_AGAIN_MS = 1_000

type LearnedOptions = {
  found: FoundRows
  /** Whether other processes use the same storage. */
  isShared: boolean
  clock: Pick<Clock, 'after'>
  /** The scope that answers a reader, by the ids of the upstreams that are asked now. */
  scopesOf(reader: Reader): ReadonlyMap<string, string>
  onTrouble(message: string): void
}

const nameOf = ({ upstream, scope, segment }: FoundRow) => JSON.stringify([upstream, scope, segment])

function slicesOf(rows: readonly FoundRow[]): Slice[] {
  const byUpstream = new Map<string, FoundRow[]>()
  for (const row of rows) {
    const others = byUpstream.get(row.agentUrl)
    if (others) others.push(row)
    else byUpstream.set(row.agentUrl, [row])
  }
  return [...byUpstream.values()].map((own) => {
    const [{ upstream: id, agentUrl, scope }] = own as [FoundRow, ...FoundRow[]]
    const listings = own.map(({ listing }) => Buffer.from(listing))
    return foundSlice({ id, agentUrl, scope }, readRows(listings), 0)
  })
}

/** Such rows, of this process and of others on its storage. */
export function createLearned({ found, isShared, clock, scopesOf, onTrouble }: LearnedOptions) {
  const recent = createRecent<Map<string, FoundRow>>(MOST_SIGNALS) // by handle, then by name
  const unwritten = new Map<string, FoundRow>()
  let writing: Promise<void> | undefined
  let isTold = false // a failure that lasts is told once
  let closed = false
  let cancelAgain = () => {}

  async function write(): Promise<void> {
    while (unwritten.size > 0) {
      const rows = [...unwritten]
      unwritten.clear()
      try {
        await found.put(rows.map(([, row]) => row))
        isTold = false
      } catch (error) {
        if (!isTold) onTrouble(`found signals are kept in memory only: ${(error as Error).message}`)
        isTold = true
        for (const [name, row] of rows) if (!unwritten.has(name)) unwritten.set(name, row)
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
      const known = recent.get(row.handle) ?? new Map<string, FoundRow>()
      recent.set(row.handle, known)
      if (known.get(nameOf(row))?.listing === row.listing) continue
      known.set(nameOf(row), row)
      if (unwritten.size < MOST_UNWRITTEN) unwritten.set(row.handle + nameOf(row), row)
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

  /** The rows of these signals as the reader's upstreams gave them, without rows that were given to another account. */
  async function rowsOf(handles: readonly string[], reader: Reader): Promise<Slice[]> {
    const ours = handles.filter((handle) => handleKey(handle) !== undefined)
    const rows = new Map<string, FoundRow>()
    for (const row of await stored(ours)) rows.set(row.handle + nameOf(row), row)
    for (const handle of ours) {
      for (const row of recent.get(handle)?.values() ?? []) rows.set(handle + nameOf(row), row)
    }
    if (rows.size === 0) return []
    const scopes = scopesOf(reader)
    return slicesOf([...rows.values()].filter(({ upstream, scope }) => scopes.get(upstream) === scope))
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

export type Learned = ReturnType<typeof createLearned>
