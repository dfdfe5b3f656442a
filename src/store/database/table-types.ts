/**
 * The tables, as kysely types. The same on SQLite and PostgreSQL: JSON is text, instants are milliseconds since the
 * epoch, and every row that belongs to a caller names the caller (specification, "Authentication" 2).
 */
import type { ColumnType, Generated, Kysely, Transaction } from 'kysely'

/** Written once, never updated. */
type Fixed<T> = ColumnType<T, T, never>

type IdempotencyTable = {
  caller: Fixed<string>
  key: Fixed<string>
  task: Fixed<string>
  fingerprint: Fixed<string>
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
  /** The number of the job that carries it out; 0 for entries of the first release. */
  seq: Fixed<number>
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
  upstream: string
  scope: string
  segment: string
  agent_url: string
  listing: string
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
  found: FoundTable
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
  found: ['handle', 'upstream', 'scope', 'segment'],
  audit: ['id'],
  signal_changes: ['id'],
} as const

/** A connection or a transaction: repositories work with either. */
export type Db = Kysely<Tables> | Transaction<Tables>
