/**
 * Steps that only add, so that the release before works on what they leave: one process of a cluster is replaced after the
 * other. They are the same on both databases.
 */
import type { Kysely, Migration } from 'kysely'

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
