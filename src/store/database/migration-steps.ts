/**
 * The steps of the tables' history (migrations.ts): tables that only processes on a shared PostgreSQL need, and steps that only
 * add, so that the release before works on what they leave: one process of a cluster is replaced after the other. The latter are
 * the same on both databases.
 */
import { type Kysely, type Migration, sql } from 'kysely'

export const blobRows: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('blobs')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('parts', 'text', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('blob_chunks')
      .addColumn('name', 'text', (column) => column.notNull().references('blobs.name').onDelete('cascade'))
      .addColumn('part', 'integer', (column) => column.notNull())
      .addColumn('chunk', 'integer', (column) => column.notNull())
      .addColumn('bytes', 'bytea', (column) => column.notNull())
      .addPrimaryKeyConstraint('blob_chunks_pk', ['name', 'part', 'chunk'])
      .execute()
  },
}

export const nonces: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('nonces')
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('nonce', 'text', (column) => column.notNull())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('nonces_pk', ['key', 'nonce'])
      .execute()
    await db.schema.createIndex('nonces_until').on('nonces').column('until').execute()
  },
}

export const replicas: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('notes')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('seq', 'bigserial', (column) => column.notNull())
      .addColumn('value', 'text', (column) => column.notNull())
      .addColumn('told_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('notes_order').on('notes').column('seq').execute()
    await db.schema
      .createTable('leases')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('owner', 'text', (column) => column.notNull())
      .addColumn('epoch', 'bigint', (column) => column.notNull())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .execute()
  },
}

export const pieces: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('pieces')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('bytes', 'bytea', (column) => column.notNull())
      .addColumn('used_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('manifests')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('parts', 'text', (column) => column.notNull())
      .execute()
  },
}

export const shelf: Migration = {
  async up(db: Kysely<unknown>) {
    // Unlogged: what is kept for minutes may be lost in a crash of the database, and costs it no log.
    await sql`create unlogged table shelf (
      name text primary key,
      kind text not null,
      owner text not null,
      kept_at bigint not null,
      size integer not null,
      about text not null,
      body text,
      bytes bytea
    )`.execute(db)
    await db.schema.createIndex('shelf_order').on('shelf').columns(['kind', 'owner', 'kept_at']).execute()
  },
}

const signalChanges: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('signal_changes')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('handle', 'text', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('told', 'text', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('signal_changes_of').on('signal_changes').columns(['handle', 'at']).execute()
    await db.schema.createIndex('signal_changes_age').on('signal_changes').column('at').execute()
  },
}

const workOrder: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema.createIndex('tasks_time').on('tasks').columns(['created_at', 'id']).execute()
    await db.schema
      .createIndex('idempotency_task')
      .on('idempotency')
      .columns(['task', 'created_at'])
      .execute()
  },
}

/** By name, in their order; a name that begins otherwise is taken for a step that contracts (migrations.ts). */
export const EXPANSIONS: Readonly<Record<string, Migration>> = {
  '012_expand_signal_changes': signalChanges,
  '013_expand_work_order': workOrder,
}
