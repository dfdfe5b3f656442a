/**
 * A copy of a feed: where rows are kept, with the version that they are a copy of. It is replaced whole or not at all, so whoever
 * reads it sees one version of the feed, and a process that ends at any moment leaves the previous copy. It is kept in files
 * (json-lines.ts) or in a database (tables.ts).
 */
import { resolve } from 'node:path'
import { isRecord, tryParseJson } from '../adcp/json.js'
import { makeFolder } from '../store/blob-files.js'
import { lockFolder } from '../store/database/sqlite.js'

/** What a copy is a copy of. The tokens are the agent's: they have no order and no parts. */
export type CopyState = {
  /** Which agent was asked what: a copy of another question is never taken for this one. */
  source: string
  /** `wholesale_feed_version`; absent where the agent has none, and then each reading is a whole walk. */
  version?: string
  /** `pricing_version`. */
  pricing?: string
  /** `cache_scope`: with an account, whether the copy is the account's own or the public one. */
  scope?: string
  rows: number
  /** When the walk that it comes from ended, ms since the epoch. */
  walkedAt: number
  /** `incomplete[]` of its last answer under these versions: what the agent says is missing from the feed, or old. */
  incomplete: readonly unknown[]
}

/** A row of the feed as the agent sent it, under its `signal_agent_segment_id`. */
export type CopyRow = { id: string; row: Readonly<Record<string, unknown>> }

/** The next copy; readers of the copy see none of it before `commit`. */
export type Replacement = {
  /** Each id comes once. */
  add(rows: readonly CopyRow[]): Promise<void>
  /** Rows and state take the place of those before, in one step. */
  commit(state: CopyState): Promise<void>
  /** Removes all of it. */
  abandon(): Promise<void>
}

/** What became of a row. */
export type RowChange =
  | { kind: 'put'; row: CopyRow['row'] }
  /** Members of the row that is there. */
  | { kind: 'set'; members: CopyRow['row'] }
  | { kind: 'remove' }

/** By segment id. */
export type RowChanges = ReadonlyMap<string, RowChange>

/** Methods reject when the disk or the database cannot serve; the copy is then what it was. */
export type Copy = {
  /** Undefined where nothing is held, or where the content is not what was written: then a whole walk repairs it. */
  state(): Promise<CopyState | undefined>
  replace(): Promise<Replacement>
  /**
   * Changes some rows or none, and with them what the agent says of all, in one step. Undefined, and nothing is changed, where
   * nothing is held, or not the row whose members are to be set.
   */
  amend(
    changes: RowChanges,
    said: Pick<CopyState, 'version' | 'pricing' | 'incomplete'>,
  ): Promise<CopyState | undefined>
  close(): Promise<void>
}

/** The state that the text holds; undefined when it is none, as after somebody changed it. */
export function stateIn(text: string): CopyState | undefined {
  const state = tryParseJson(Buffer.from(text), Number.POSITIVE_INFINITY)
  if (!isRecord(state) || !Array.isArray(state.incomplete)) return undefined
  const { source, version = '', pricing = '', scope = '', rows, walkedAt } = state
  const areTexts = [source, version, pricing, scope].every((value) => typeof value === 'string')
  return areTexts && [rows, walkedAt].every(Number.isFinite) ? (state as CopyState) : undefined
}

/**
 * Takes the folder, which is made where it is not there. Resolves with its absolute path and with what gives it back. Rejects when
 * another process has it, or it cannot be written.
 */
export async function takeFolder(path: string) {
  const advice = 'name a folder that this process may make and write to, or postgres://...'
  if (path === '') throw new Error(advice)
  const folder = resolve(path)
  await makeFolder(folder).catch(({ message }: Error) => Promise.reject(new Error(`${message}; ${advice}`)))
  return { folder, release: await lockFolder(folder) }
}
