/**
 * A database as repositories see it: its tables, as kysely types, and the few differences between SQLite and PostgreSQL; everything
 * else is one SQL text for both. JSON is text, instants are milliseconds since the epoch, and every row that belongs to a caller
 * names the caller (specification, "Authentication" 2). Rows that are written together are one JSON parameter of one statement:
 * with one parameter per value, a statement would be built, sent and prepared again for each number of rows, which cost more than
 * the rest of the write.
 */
import { type ColumnType, type Generated, type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'

/** Written once, never updated. */
type Fixed<T> = ColumnType<T, T, never>

type IdempotencyTable = {
  caller: Fixed<string>
  key: Fixed<string>
  task: Fixed<string>
  fingerprint: Fixed<string>
  /** Ids of the calls that are made for the request, as JSON; null where an earlier release bound the key. */
  calls: Fixed<string | null>
  answer: string | null
  created_at: Fixed<number>
  expires_at: Fixed<number>
}

export type JobTable = {
  /** From the database's sequence: a later request has a higher number, whatever the clocks say. */
  seq: Generated<number>
  id: Fixed<string>
  kind: Fixed<string>
  /** Lanes take turns: a lane is an upstream, a caller or a receiver. */
  lane: Fixed<string>
  /** What it changes: jobs of one target with opposite directions run one after the other. */
  target: Fixed<string | null>
  /** The direction: jobs that change a target in the same direction need not wait for each other. */
  side: Fixed<string | null>
  caller: Fixed<string>
  /** The caller's idempotency key; empty when there is none. */
  key: Fixed<string>
  /** Who holds it, and how many times it has been claimed: a write under another epoch changes nothing. */
  owner: string | null
  epoch: number
  attempts: number
  /**
   * When it may be claimed, by the database's clock; while it is held, the end of its lease. Null when it has ended.
   */
  due: number | null
  state: string
  data: string
  answer: string | null
  created_at: Fixed<number>
  ended_at: number | null
}

export type ActivationTable = {
  id: Fixed<string>
  caller: Fixed<string>
  account: Fixed<string | null>
  action: Fixed<string>
  handle: Fixed<string>
  signal_handle: Fixed<string>
  offer_handle: Fixed<string>
  pricing_option_id: Fixed<string | null>
  upstream_option_id: Fixed<string | null>
  upstream: Fixed<string>
  agent_url: Fixed<string>
  segment_id: Fixed<string>
  upstream_account: Fixed<string | null>
  destinations: Fixed<string>
  outcome: string
  deployments: string | null
  error: string | null
  task_id: string | null
  /** How the upstream sees the caller: by a credential of its own, or by the one that callers share. */
  seen_as: Fixed<string>
  /** 1 when the call goes with a credential. */
  credentialed: Fixed<number | null>
  /** The number of the job that carries it out; 0 for entries of the first release. */
  seq: Fixed<number>
  /** 1: nothing is told by it that a later entry does not tell (store/records/ledger.ts). */
  past: Generated<number>
  created_at: Fixed<number>
  updated_at: number
}

export type TaskTable = {
  id: Fixed<string>
  caller: Fixed<string>
  account: Fixed<string | null>
  type: Fixed<string>
  status: string
  upstream: Fixed<string | null>
  upstream_task_id: Fixed<string | null>
  call_id: Fixed<string | null>
  request: Fixed<string>
  /** 1 when its caller wants to be notified. */
  webhook: Fixed<number>
  result: string | null
  error: string | null
  created_at: Fixed<number>
  updated_at: number
  completed_at: number | null
}

export type AccountTable = {
  caller: Fixed<string>
  account_id: Fixed<string>
  natural_key: Fixed<string | null>
  settings: string
  status: string
  notification_configs: string
  created_at: Fixed<number>
  updated_at: number
}

export type SubscriptionTable = {
  caller: Fixed<string>
  account_id: Fixed<string>
  subscriber_id: Fixed<string>
  /** The job that sends it the changes. */
  job: Fixed<string>
  /** What the caller proved to control: the url, the signature, and the events. */
  config: Fixed<string>
  /** Why it is suspended, and since when. */
  suspended: string | null
  created_at: Fixed<number>
}

type FoundTable = {
  handle: string
  agent_url: string
  scope: string
  segment: string
  listing: string
  priced_for: string | null
  found_at: number
}

type BlobTable = { name: string; parts: string }
type PieceTable = { name: string; bytes: Uint8Array; used_at: number }
type ManifestTable = { name: string; parts: string }
type BlobChunkTable = { name: string; part: number; chunk: number; bytes: Uint8Array }

type ShelfTable = {
  name: string
  kind: string
  owner: string
  /** By the database's clock. */
  kept_at: number
  /** Bytes. */
  size: number
  about: string
  /** The row that has its bytes, when many share them. */
  body: string | null
  bytes: Uint8Array | null
}

type NonceTable = { key: string; nonce: string; until: number }

type LeaseTable = { name: string; owner: string; epoch: number; until: number }

type NoteTable = { name: string; seq: number; value: string; told_at: number }

type AuditTable = {
  id: string
  at: number
  who: string
  action: string
  subject: string
  outcome: string
}

export type SignalChangeTable = {
  id: string
  /** Empty for what changed too many signals at once. */
  handle: string
  at: number
  kind: 'created' | 'updated' | 'priced' | 'removed' | 'many'
  /** JSON. */
  told: string
}

export type Tables = {
  audit: AuditTable
  signal_changes: SignalChangeTable
  idempotency: IdempotencyTable
  jobs: JobTable
  activations: ActivationTable
  tasks: TaskTable
  accounts: AccountTable
  subscriptions: SubscriptionTable
  found_rows: FoundTable
  /** PostgreSQL only: an embedded store has blobs as files. */
  pieces: PieceTable
  manifests: ManifestTable
  /** Blobs in the form of earlier releases. */
  blobs: BlobTable
  blob_chunks: BlobChunkTable
  /** PostgreSQL only: a process that is alone keeps them in memory. */
  nonces: NonceTable
  /** PostgreSQL only: a process that is alone keeps it in memory. */
  shelf: ShelfTable
  /** PostgreSQL only: a process that is alone needs no leases. */
  leases: LeaseTable
  /** PostgreSQL only: a process that is alone has no other to notify. */
  notes: NoteTable
}

/** The tables that move to another storage, with the columns of their keys. */
export const STATE_TABLES = {
  idempotency: ['caller', 'key'],
  jobs: ['seq'],
  activations: ['id'],
  tasks: ['id'],
  accounts: ['caller', 'account_id'],
  subscriptions: ['caller', 'account_id', 'subscriber_id'],
  found_rows: ['handle', 'agent_url', 'scope', 'segment'],
  audit: ['id'],
  signal_changes: ['id'],
} as const

/** The tables that only processes on a shared PostgreSQL have besides. */
export const SHARED_TABLES = [
  'pieces',
  'manifests',
  'blobs',
  'blob_chunks',
  'nonces',
  'shelf',
  'leases',
  'notes',
] as const

/** A connection or a transaction: repositories work with either. */
export type Db = Kysely<Tables> | Transaction<Tables>

/** Characters that a database cannot store: PostgreSQL rejects U+0000, and both reject half a surrogate pair. */
const REPLACEMENT = '\ufffd'

/** The text with U+FFFD in place of those characters, both when it is written and when it is searched for. */
function storable(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes('\0') ? whole.replaceAll('\0', REPLACEMENT) : whole
}

/** A parameter of a statement, ready to be bound. */
export function bound(value: unknown): unknown {
  return typeof value === 'string' ? storable(value) : value
}

/** JSON whose texts the databases can extract. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  // JSON escapes the characters that cannot be stored, and few others.
  return json.includes('\\u') ? JSON.stringify(value, (_name, member: unknown) => bound(member)) : json
}

export type SqlDialect = {
  /** The database's current time, ms since the epoch. */
  now(): RawBuilder<number>
  /** Locks the targets, so that one transaction at a time decides about each. */
  inTurn?(db: Db, targets: readonly string[]): Promise<unknown>
  /** A table `given` with one row per JSON object in column `value`, in their order; a member is `value->>'name'`. */
  given(rows: readonly object[]): RawBuilder<unknown>
  /**
   * The same for a statement that updates many jobs, each named by the member `id`, which is column `job` as well: it locks them in
   * one order, so that two such statements cannot deadlock, and once. What the statement asks of a job it compares with members:
   * PostgreSQL takes a condition on the table alone, as `owner is null`, for a rare one while it has no statistics, and then compares
   * every job with every row. It does so too when it counted the jobs while there were none: comparing with a column is fast then.
   */
  givenJobs(rows: readonly object[]): RawBuilder<unknown>
}

const postgresRows = (rows: readonly object[]) =>
  sql`json_array_elements(${storableJson(rows)}::json) as given(value)`

export const POSTGRES: SqlDialect = {
  // The server's clock: processes with different clocks must agree on who holds a lease.
  now: () => sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  // Locks in one order everywhere, so that transactions about the same targets wait for each other and do not deadlock.
  inTurn: (db, targets) =>
    sql`select pg_advisory_xact_lock(place) from (select distinct hashtextextended(target, 0) as place
      from unnest(${targets}::text[]) as target order by place) as places`.execute(db),
  given: postgresRows,
  givenJobs: (rows) =>
    sql`(with locked as materialized (select jobs.id as job, value from ${postgresRows(rows)} join jobs on jobs.id = value->>'id'
      order by jobs.id for update of jobs) select job, value from locked) as given`,
}

/** The same time until somebody sets the clock back: then it goes on from where it was, so that pauses stay as long as they are. */
function steady(now: () => number): () => number {
  let [last, ahead] = [Number.NEGATIVE_INFINITY, 0]
  return () => {
    const at = now()
    if (at < last) ahead += last - at
    last = at
    return at + ahead
  }
}

/** One process, so its clock is the database's; and its writes run one after the other. */
export function embedded(own: () => number): SqlDialect {
  const now = steady(own)
  const given = (rows: readonly object[]) => sql`json_each(${storableJson(rows)}) as given`
  const givenJobs = (rows: readonly object[]) =>
    sql`(select value->>'id' as job, value from ${given(rows)}) as given`
  return { now: () => sql<number>`${now()}`, given, givenJobs }
}
