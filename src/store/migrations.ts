/**
 * How the storage of an earlier release becomes one of this. The tables' history goes forward only, each step in a transaction of its
 * own and under a database lock: a step holds one table, so that it and what a process of the release before writes to several
 * never wait for each other. A database with steps that this program does not know belongs to a newer release. A step
 * that only adds is named so (`NNN_expand_...`), and so is one that takes away what the release before uses
 * (`NNN_contract_...`): two neighbouring releases work side by side on the first, not on the second, and one process of a
 * cluster is replaced after the other. What the first release left open goes on as jobs (store/carry-over.ts).
 */
import { type Kysely, type Migration, Migrator, sql } from 'kysely'
import { configuredAgentUrl } from '../adcp/url.js'
import type { Tables } from './database/database.js'
import { StorageUnusable } from './database/storage-work.js'

/** One statement after the other. */
const step = (...statements: string[]): Migration => ({
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
})

const activation = step(
  `create table idempotency (caller text not null, key text not null, task text not null, fingerprint text not null,
    answer text, created_at bigint not null, expires_at bigint not null,
    constraint idempotency_pk primary key (caller, key))`,
  'create index idempotency_expiry on idempotency (expires_at)',
  `create table calls (id text primary key, caller text not null, key text not null, task text not null,
    upstream text not null, upstream_key text not null, target text not null, args text not null, rows text not null,
    state text not null, answer text, owner text not null, lease_until bigint not null, attempts integer not null,
    created_at bigint not null, updated_at bigint not null)`,
  'create index calls_key on calls (caller, key)',
  'create index calls_target on calls (caller, upstream, target, created_at)',
  'create index calls_state on calls (state, lease_until)',
  `create table activations (id text primary key, caller text not null, account text, action text not null,
    handle text not null, signal_handle text not null, offer_handle text not null, pricing_option_id text,
    upstream_option_id text, upstream text not null, agent_url text not null, segment_id text not null,
    upstream_account text, destinations text not null, outcome text not null, deployments text, error text, task_id text,
    created_at bigint not null, updated_at bigint not null)`,
  'create index activations_signal on activations (caller, signal_handle, created_at)',
  'create index activations_time on activations (created_at, id)',
  `create table tasks (id text primary key, caller text not null, account text, type text not null,
    status text not null, upstream text, upstream_task_id text, call_id text, request text not null, result text,
    error text, created_at bigint not null, updated_at bigint not null, completed_at bigint, polled_at bigint not null)`,
  'create index tasks_caller on tasks (caller, created_at, id)',
  'create index tasks_open on tasks (completed_at, polled_at)',
  `create table accounts (caller text not null, account_id text not null, natural_key text, settings text not null,
    status text not null, notification_configs text not null, created_at bigint not null, updated_at bigint not null,
    constraint accounts_pk primary key (caller, account_id),
    constraint accounts_natural_key unique (caller, natural_key))`,
)

const blobRows = step(
  'create table blobs (name text primary key, parts text not null)',
  `create table blob_chunks (name text not null references blobs (name) on delete cascade, part integer not null,
    chunk integer not null, bytes bytea not null, constraint blob_chunks_pk primary key (name, part, chunk))`,
)

const discovery = step(
  'alter table tasks add column webhook integer not null default 0',
  `create table found (handle text not null, upstream text not null, scope text not null, segment text not null,
    agent_url text not null, listing text not null, found_at bigint not null,
    constraint found_pk primary key (handle, upstream, scope, segment))`,
  'create index found_time on found (found_at)',
)

/**
 * `sequence`: how the database numbers rows in the order in which they come, never using a number twice. `unpolled`: the first
 * release wrote `polled_at` with each task and asked by it; its neighbour does neither.
 */
const jobs = (sequence: string, ...unpolled: string[]) =>
  step(
    `create table jobs (seq ${sequence}, id text not null unique, kind text not null, lane text not null, target text,
      side text, caller text not null, key text not null, owner text, epoch integer not null, attempts integer not null,
      due bigint, state text not null, data text not null, answer text, created_at bigint not null, ended_at bigint)`,
    // Partial: finished jobs do not slow down the search for open ones, however many are kept.
    'create index jobs_due on jobs (kind, due) where due is not null',
    'create index jobs_target on jobs (target, seq) where target is not null',
    'create index jobs_taken on jobs (target) where owner is not null',
    'create index jobs_ended on jobs (ended_at) where ended_at is not null',
    'create index jobs_key on jobs (caller, key)',
    "alter table activations add column seen_as text not null default 'shared'",
    'alter table activations add column seq bigint not null default 0',
    'create index activations_segment on activations (agent_url, segment_id)',
    'create index tasks_ended on tasks (completed_at) where completed_at is not null',
    'drop index tasks_open',
    ...unpolled,
  )

/** What one segment's entries are asked for: the newest ones, and whether any is a deactivation. */
const segmentOrder = step(
  'drop index activations_segment',
  'create index activations_segment on activations (agent_url, segment_id, seq)',
  "create index activations_off on activations (agent_url, segment_id) where action = 'deactivate'",
)

/** An agent is named by its url without the credentials in it, which are not kept. The first release kept the whole url. */
const agentNames: Migration = {
  async up(db: Kysely<unknown>) {
    for (const table of ['activations', 'found'].map((name) => sql.table(name))) {
      const asked = sql<{
        agent_url: string
      }>`select distinct agent_url from ${table} where agent_url like '%?%'`
      for (const { agent_url: url } of (await asked.execute(db)).rows) {
        const name = configuredAgentUrl(url)
        if (name === undefined || name === url) continue
        await sql`update ${table} set agent_url = ${name} where agent_url = ${url}`.execute(db)
      }
    }
  },
}

const nonces = step(
  `create table nonces (key text not null, nonce text not null, until bigint not null,
    constraint nonces_pk primary key (key, nonce))`,
  'create index nonces_until on nonces (until)',
)

const subscriptions = step(
  `create table subscriptions (caller text not null, account_id text not null, subscriber_id text not null,
    job text not null unique, config text not null, suspended text, created_at bigint not null,
    constraint subscriptions_pk primary key (caller, account_id, subscriber_id))`,
)

const replicas = step(
  'create table notes (name text primary key, seq bigserial not null, value text not null, told_at bigint not null)',
  'create index notes_order on notes (seq)',
  'create table leases (name text primary key, owner text not null, epoch bigint not null, until bigint not null)',
)

const pieces = step(
  'create table pieces (name text primary key, bytes bytea not null, used_at bigint not null)',
  'create table manifests (name text primary key, parts text not null)',
)

const audit = step(
  `create table audit (id text primary key, at bigint not null, who text not null, action text not null,
    subject text not null, outcome text not null)`,
  'create index audit_order on audit (at, id)',
)

const signalChanges = step(
  `create table signal_changes (id text primary key, handle text not null, at bigint not null, kind text not null,
    told text not null)`,
  'create index signal_changes_of on signal_changes (handle, at)',
  'create index signal_changes_age on signal_changes (at)',
)

const workOrder = step(
  'create index tasks_time on tasks (created_at, id)',
  'create index idempotency_task on idempotency (task, created_at)',
)

/** The calls that a key's request is bound to, by their ids. */
const boundCalls = step('alter table idempotency add column calls text')

/** In the ledger, what is past (store/records/ledger.ts), and whether a call goes with a credential: null where its job says so. */
const standing = step(
  'alter table activations add column past integer not null default 0',
  'alter table activations add column credentialed integer',
)

/** What of a segment, and of a signal, is not past. */
const standingOrder = step(
  'create index activations_standing on activations (agent_url, segment_id, caller) where past = 0',
  'create index activations_asked on activations (caller, signal_handle) where past = 0',
  'drop index activations_segment',
  'drop index activations_off',
)

const shelf = step(
  // Unlogged: what is kept for minutes may be lost in a crash of the database, and costs it no log.
  `create unlogged table shelf (name text primary key, kind text not null, owner text not null, kept_at bigint not null,
    size integer not null, about text not null, body text, bytes bytea)`,
  'create index shelf_order on shelf (kind, owner, kept_at)',
)

/** Pieces are compressed more than twice as fast as by default; a server that was built without it, or is older, keeps its own way. */
const pieceCompression = step(
  `do $$ begin
    execute 'alter table pieces alter column bytes set compression lz4';
  exception when feature_not_supported or syntax_error or invalid_parameter_value then null; end $$`,
)

/**
 * Found rows by their agents' urls. The release before goes on with the table `found`, by ids, which this one leaves as it is. An
 * agent that had several ids has the newest of its rows. Whether prices in the public scope were for everybody was not kept: they
 * are for no credential until they are found again.
 */
const foundByAgent = step(
  `create table found_rows (handle text not null, agent_url text not null, scope text not null, segment text not null,
    listing text not null, priced_for text, found_at bigint not null,
    constraint found_rows_pk primary key (handle, agent_url, scope, segment))`,
  `insert into found_rows (handle, agent_url, scope, segment, listing, priced_for, found_at)
    select handle, agent_url, scope, segment, listing, case when scope = 'public' then 'unknown' end, found_at
      from found as one where not exists (
      select 1 from found as other where other.handle = one.handle and other.agent_url = one.agent_url
        and other.scope = one.scope and other.segment = one.segment
        and (other.found_at > one.found_at or (other.found_at = one.found_at and other.upstream > one.upstream)))`,
  'create index found_rows_time on found_rows (found_at)',
)

export const EMBEDDED_MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_activation': activation,
  '003_discovery': discovery,
  '004_jobs': jobs(
    'integer primary key autoincrement',
    'alter table tasks drop column polled_at',
    'alter table tasks add column polled_at bigint not null default 0',
  ),
  '005_segment_order': segmentOrder,
  '006_agent_names': agentNames,
  '008_subscriptions': subscriptions,
  '011_audit': audit,
  '012_expand_signal_changes': signalChanges,
  '013_expand_work_order': workOrder,
  '016_expand_bound_calls': boundCalls,
  '017_expand_standing': standing,
  '018_expand_found_by_agent': foundByAgent,
  '019_expand_standing_order': standingOrder,
}

/** The same, and the tables that only processes on a shared PostgreSQL need. */
export const SHARED_MIGRATIONS: Readonly<Record<string, Migration>> = {
  ...EMBEDDED_MIGRATIONS,
  '002_blob_rows': blobRows,
  '004_jobs': jobs('bigserial primary key', 'alter table tasks alter column polled_at set default 0'),
  '007_nonces': nonces,
  '009_replicas': replicas,
  '010_pieces': pieces,
  '014_expand_shelf': shelf,
  '015_expand_piece_compression': pieceCompression,
}

const EXPANDS = /^\d{3}_expand_/

/** Names of the steps that the database has; none before the first start. */
async function stepsOf(db: Kysely<Tables>): Promise<readonly string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(({ name }) => name === 'kysely_migration')) return []
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  return rows.map(({ name }) => name)
}

/**
 * The steps of a newer release, which have been taken already, as steps that do nothing. Throws when one of them is
 * not known to only add: what it took away may be what this release writes to.
 */
function newerSteps(steps: readonly string[], known: Record<string, Migration>): Record<string, Migration> {
  const newer = steps.filter((name) => !Object.hasOwn(known, name))
  const refused = newer.filter((name) => !EXPANDS.test(name))
  if (refused.length > 0) {
    throw new StorageUnusable(
      `the storage was changed by a newer release in a way that this one cannot work with (${refused.join(', ')}); start that release, or restore the backup taken before it`,
    )
  }
  return Object.fromEntries(newer.map((name) => [name, { up: async () => {} }]))
}

/**
 * Brings the database to this release's tables, and leaves those that a newer release has added. Throws when a newer
 * release has contracted them, or when a step fails.
 */
export async function migrate(db: Kysely<Tables>, migrations: Record<string, Migration>): Promise<void> {
  for (;;) {
    const steps = await stepsOf(db)
    const all = { ...newerSteps(steps, migrations), ...migrations }
    const migrator = new Migrator({ db, provider: { getMigrations: async () => all } })
    const [next] = Object.keys(all)
      .filter((name) => !steps.includes(name))
      .sort()
    const isLast = next === undefined || steps.length === 0 // of a new database, which nobody else uses yet, all at once
    const { error } = await (isLast ? migrator.migrateToLatest() : migrator.migrateTo(next))
    if (error === undefined && isLast) return
    if (error === undefined) continue
    const since = await stepsOf(db)
    if (since.every((name) => steps.includes(name))) throw error
    // A newer release that started at the same time was faster: its steps are judged first.
  }
}
