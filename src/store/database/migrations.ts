/**
 * The tables' history: forward only, all steps in one transaction, under a database lock. A database with steps that
 * this program does not know belongs to a newer release. A step that only adds is named so (`NNN_expand_...`), and so is
 * one that takes away what the release before uses (`NNN_contract_...`): two neighbouring releases work side by side on
 * the first, not on the second.
 */
import { type Kysely, type Migration, Migrator, sql } from 'kysely'
import { agentUrlOf } from '../../adcp/url.js'
import type { Tables } from './database.js'
import { blobRows, EXPANSIONS, nonces, pieces, replicas, shelf } from './migration-steps.js'

const activation: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('idempotency')
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('task', 'text', (column) => column.notNull())
      .addColumn('fingerprint', 'text', (column) => column.notNull())
      .addColumn('answer', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('idempotency_pk', ['caller', 'key'])
      .execute()
    await db.schema.createIndex('idempotency_expiry').on('idempotency').column('expires_at').execute()

    await db.schema
      .createTable('calls')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('task', 'text', (column) => column.notNull())
      .addColumn('upstream', 'text', (column) => column.notNull())
      .addColumn('upstream_key', 'text', (column) => column.notNull())
      .addColumn('target', 'text', (column) => column.notNull())
      .addColumn('args', 'text', (column) => column.notNull())
      .addColumn('rows', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('answer', 'text')
      .addColumn('owner', 'text', (column) => column.notNull())
      .addColumn('lease_until', 'bigint', (column) => column.notNull())
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('calls_key').on('calls').columns(['caller', 'key']).execute()
    await db.schema
      .createIndex('calls_target')
      .on('calls')
      .columns(['caller', 'upstream', 'target', 'created_at'])
      .execute()
    await db.schema.createIndex('calls_state').on('calls').columns(['state', 'lease_until']).execute()

    await db.schema
      .createTable('activations')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('account', 'text')
      .addColumn('action', 'text', (column) => column.notNull())
      .addColumn('handle', 'text', (column) => column.notNull())
      .addColumn('signal_handle', 'text', (column) => column.notNull())
      .addColumn('offer_handle', 'text', (column) => column.notNull())
      .addColumn('pricing_option_id', 'text')
      .addColumn('upstream_option_id', 'text')
      .addColumn('upstream', 'text', (column) => column.notNull())
      .addColumn('agent_url', 'text', (column) => column.notNull())
      .addColumn('segment_id', 'text', (column) => column.notNull())
      .addColumn('upstream_account', 'text')
      .addColumn('destinations', 'text', (column) => column.notNull())
      .addColumn('outcome', 'text', (column) => column.notNull())
      .addColumn('deployments', 'text')
      .addColumn('error', 'text')
      .addColumn('task_id', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createIndex('activations_signal')
      .on('activations')
      .columns(['caller', 'signal_handle', 'created_at'])
      .execute()
    await db.schema.createIndex('activations_time').on('activations').columns(['created_at', 'id']).execute()

    await db.schema
      .createTable('tasks')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('account', 'text')
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('upstream', 'text')
      .addColumn('upstream_task_id', 'text')
      .addColumn('call_id', 'text')
      .addColumn('request', 'text', (column) => column.notNull())
      .addColumn('result', 'text')
      .addColumn('error', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .addColumn('completed_at', 'bigint')
      .addColumn('polled_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('tasks_caller').on('tasks').columns(['caller', 'created_at', 'id']).execute()
    await db.schema.createIndex('tasks_open').on('tasks').columns(['completed_at', 'polled_at']).execute()

    await db.schema
      .createTable('accounts')
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('account_id', 'text', (column) => column.notNull())
      .addColumn('natural_key', 'text')
      .addColumn('settings', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('notification_configs', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('accounts_pk', ['caller', 'account_id'])
      .addUniqueConstraint('accounts_natural_key', ['caller', 'natural_key'])
      .execute()
  },
}

const discovery: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .alterTable('tasks')
      .addColumn('webhook', 'integer', (column) => column.notNull().defaultTo(0))
      .execute()
    await db.schema
      .createTable('found')
      .addColumn('handle', 'text', (column) => column.notNull())
      .addColumn('upstream', 'text', (column) => column.notNull())
      .addColumn('scope', 'text', (column) => column.notNull())
      .addColumn('segment', 'text', (column) => column.notNull())
      .addColumn('agent_url', 'text', (column) => column.notNull())
      .addColumn('listing', 'text', (column) => column.notNull())
      .addColumn('found_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('found_pk', ['handle', 'upstream', 'scope', 'segment'])
      .execute()
    await db.schema.createIndex('found_time').on('found').column('found_at').execute()
  },
}

/** `sequence`: how the database numbers rows in the order in which they come, never using a number twice. */
const jobs = (sequence: 'integer' | 'bigserial'): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('jobs')
      .addColumn('seq', sequence, (column) =>
        sequence === 'integer' ? column.primaryKey().autoIncrement() : column.primaryKey(),
      )
      .addColumn('id', 'text', (column) => column.notNull().unique())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('lane', 'text', (column) => column.notNull())
      .addColumn('target', 'text')
      .addColumn('side', 'text')
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('owner', 'text')
      .addColumn('epoch', 'integer', (column) => column.notNull())
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('due', 'bigint')
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('data', 'text', (column) => column.notNull())
      .addColumn('answer', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('ended_at', 'bigint')
      .execute()
    // Partial: finished jobs do not slow down the search for open ones, however many are kept.
    await sql`create index jobs_due on jobs (kind, due) where due is not null`.execute(db)
    await sql`create index jobs_target on jobs (target, seq) where target is not null`.execute(db)
    await sql`create index jobs_taken on jobs (target) where owner is not null`.execute(db)
    await sql`create index jobs_ended on jobs (ended_at) where ended_at is not null`.execute(db)
    await db.schema.createIndex('jobs_key').on('jobs').columns(['caller', 'key']).execute()

    await db.schema
      .alterTable('activations')
      .addColumn('seen_as', 'text', (column) => column.notNull().defaultTo('shared'))
      .execute()
    await db.schema
      .alterTable('activations')
      .addColumn('seq', 'bigint', (column) => column.notNull().defaultTo(0))
      .execute()
    await db.schema
      .createIndex('activations_segment')
      .on('activations')
      .columns(['agent_url', 'segment_id'])
      .execute()
    await sql`create index tasks_ended on tasks (completed_at) where completed_at is not null`.execute(db)
    // The first release wrote it with each task and asked by it; its neighbour does neither.
    await db.schema.dropIndex('tasks_open').execute()
    if (sequence === 'bigserial') {
      await sql`alter table tasks alter column polled_at set default 0`.execute(db)
    } else {
      await db.schema.alterTable('tasks').dropColumn('polled_at').execute()
      await db.schema
        .alterTable('tasks')
        .addColumn('polled_at', 'bigint', (column) => column.notNull().defaultTo(0))
        .execute()
    }
  },
})

/** What one segment's entries are asked for: the newest ones, and whether any is a deactivation. */
const segmentOrder: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema.dropIndex('activations_segment').execute()
    await sql`create index activations_segment on activations (agent_url, segment_id, seq)`.execute(db)
    await sql`create index activations_off on activations (agent_url, segment_id) where action = 'deactivate'`.execute(
      db,
    )
  },
}

/** An agent is named by its url without the credentials in it, which are not kept. The first release kept the whole url. */
const agentNames: Migration = {
  async up(db: Kysely<unknown>) {
    for (const table of ['activations', 'found'].map((name) => sql.table(name))) {
      const asked = sql<{
        agent_url: string
      }>`select distinct agent_url from ${table} where agent_url like '%?%'`
      for (const { agent_url: url } of (await asked.execute(db)).rows) {
        const name = agentUrlOf(url)
        if (name === undefined || name === url) continue
        await sql`update ${table} set agent_url = ${name} where agent_url = ${url}`.execute(db)
      }
    }
  },
}

const subscriptions: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('subscriptions')
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('account_id', 'text', (column) => column.notNull())
      .addColumn('subscriber_id', 'text', (column) => column.notNull())
      .addColumn('job', 'text', (column) => column.notNull().unique())
      .addColumn('config', 'text', (column) => column.notNull())
      .addColumn('suspended', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('subscriptions_pk', ['caller', 'account_id', 'subscriber_id'])
      .execute()
  },
}

const audit: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('audit')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('who', 'text', (column) => column.notNull())
      .addColumn('action', 'text', (column) => column.notNull())
      .addColumn('subject', 'text', (column) => column.notNull())
      .addColumn('outcome', 'text', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('audit_order').on('audit').columns(['at', 'id']).execute()
  },
}

export const EMBEDDED_MIGRATIONS: Record<string, Migration> = {
  '001_activation': activation,
  '003_discovery': discovery,
  '004_jobs': jobs('integer'),
  '005_segment_order': segmentOrder,
  '006_agent_names': agentNames,
  '008_subscriptions': subscriptions,
  '011_audit': audit,
  ...EXPANSIONS,
}
export const SHARED_MIGRATIONS: Record<string, Migration> = {
  '001_activation': activation,
  '002_blob_rows': blobRows,
  '003_discovery': discovery,
  '004_jobs': jobs('bigserial'),
  '005_segment_order': segmentOrder,
  '006_agent_names': agentNames,
  '007_nonces': nonces,
  '008_subscriptions': subscriptions,
  '009_replicas': replicas,
  '010_pieces': pieces,
  '011_audit': audit,
  ...EXPANSIONS,
  '014_expand_shelf': shelf,
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
    throw new Error(
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
    const { error } = await new Migrator({
      db,
      provider: { getMigrations: async () => all },
    }).migrateToLatest()
    if (error === undefined) return
    const since = await stepsOf(db)
    if (since.every((name) => steps.includes(name))) throw error
    // A newer release that started at the same time was faster: its steps are judged first.
  }
}
