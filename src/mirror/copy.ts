/**
 * The contract of a copy of a feed: where rows are kept, with the version that they are a copy of. A copy is replaced whole or not at
 * all, so whoever reads it sees one version of the feed, and a process that ends at any moment leaves the previous copy.
 */

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
  /** `incomplete[]` of the walk: what the agent says is missing from the feed, or old. */
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
   * Changes some rows, and the versions of the state with them, in one step. Undefined, and nothing is changed, where nothing is
   * held, or not the row whose members are to be set.
   */
  amend(changes: RowChanges, versions: Pick<CopyState, 'version' | 'pricing'>): Promise<CopyState | undefined>
  close(): Promise<void>
}
