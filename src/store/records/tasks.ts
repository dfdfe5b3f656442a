/**
 * Requests that are answered later and that callers poll (specification, "get_task_status"; schemas
 * protocol/get-task-status and protocol/list-tasks). A task belongs to one caller; no query crosses callers.
 */
import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import type { Db, Tables, TaskTable } from '../database/database.js'
import type { Seal } from '../database/seal.js'

export type TaskStatus =
  | 'submitted'
  | 'working'
  | 'input-required'
  | 'completed'
  | 'canceled'
  | 'failed'
  | 'rejected'
  | 'auth-required'

const FINAL: ReadonlySet<string> = new Set(['completed', 'canceled', 'failed', 'rejected'])

export type NewTask = {
  id: string
  caller: string
  /** The caller's account reference, canonical JSON. */
  account?: string
  type: 'activate_signal' | 'get_signals'
  status: TaskStatus
  /** The upstream's task, when an upstream does the work. */
  upstream?: string
  upstreamTaskId?: string
  /** The call that created it, if one did. */
  callId?: string
  request: unknown
  /** Whether its caller is notified of its end. Default: false. */
  webhook?: boolean
}

export type StoredTask = NewTask & {
  result?: unknown
  error?: unknown
  createdAt: number
  updatedAt: number
  completedAt?: number
}

export type TaskFilter = {
  account?: string
  ids?: readonly string[]
  types?: readonly string[]
  statuses?: readonly string[]
  createdAfter?: number
  createdBefore?: number
  updatedAfter?: number
  updatedBefore?: number
  /** A text that the request contains. */
  contains?: string
  webhook?: boolean
}

export type TaskOrder = { field: 'created_at' | 'updated_at' | 'status' | 'type'; direction: 'asc' | 'desc' }
/** Which of the tasks in that order. */
type TaskPlace = { limit: number; offset: number }
type TaskPage = { tasks: StoredTask[]; total: number; statuses: Record<string, number> }
export type TaskProgress = { status: TaskStatus; result?: unknown; error?: unknown }

export type Tasks = {
  create(task: NewTask): Promise<void>
  get(caller: string, id: string): Promise<StoredTask | undefined>
  list(caller: string, filter: TaskFilter, order: TaskOrder, place: TaskPlace): Promise<TaskPage>
  /** False when the task had already ended: the first ending stays. */
  progress(id: string, progress: TaskProgress): Promise<boolean>
  /** Deletes a task of the caller's that has ended; returns whether the id is free now. */
  free(caller: string, id: string): Promise<boolean>
  /** Deletes up to so many tasks that ended before a time. Returns how many. */
  forgetFinished(before: number, limit: number): Promise<number>
}

/** Whether a task in this status has ended. */
export function isFinal(status: TaskStatus): boolean {
  return FINAL.has(status)
}

function matching(caller: string, filter: TaskFilter) {
  return (eb: ExpressionBuilder<Tables, 'tasks'>) => {
    const conditions = [eb('caller', '=', caller)]
    if (filter.account !== undefined) conditions.push(eb('account', '=', filter.account))
    if (filter.ids) conditions.push(eb('id', 'in', filter.ids))
    if (filter.types) conditions.push(eb('type', 'in', filter.types))
    if (filter.statuses) conditions.push(eb('status', 'in', filter.statuses))
    if (filter.createdAfter !== undefined) conditions.push(eb('created_at', '>', filter.createdAfter))
    if (filter.createdBefore !== undefined) conditions.push(eb('created_at', '<', filter.createdBefore))
    if (filter.updatedAfter !== undefined) conditions.push(eb('updated_at', '>', filter.updatedAfter))
    if (filter.updatedBefore !== undefined) conditions.push(eb('updated_at', '<', filter.updatedBefore))
    if (filter.webhook !== undefined) conditions.push(eb('webhook', '=', filter.webhook ? 1 : 0))
    if (filter.contains) {
      // Compares exactly: LIKE differs between the two databases.
      conditions.push(sql<boolean>`replace(request, ${filter.contains}, '') <> request` as never)
    }
    return eb.and(conditions)
  }
}

export function createTasks(db: Db, now: () => number, seal: Seal): Tasks {
  function fromRow(row: Selectable<TaskTable>): StoredTask {
    return {
      id: row.id,
      caller: row.caller,
      ...(row.account !== null && { account: row.account }),
      type: row.type as StoredTask['type'],
      status: row.status as TaskStatus,
      ...(row.upstream !== null && { upstream: row.upstream }),
      ...(row.upstream_task_id !== null && { upstreamTaskId: row.upstream_task_id }),
      ...(row.call_id !== null && { callId: row.call_id }),
      request: JSON.parse(row.request) as unknown,
      ...(row.webhook === 1 && { webhook: true }),
      ...(row.result !== null && { result: seal.read(row.result) }),
      ...(row.error !== null && { error: seal.read(row.error) }),
      createdAt: row.created_at,
      updatedAt: row.updated_at,
      ...(row.completed_at !== null && { completedAt: row.completed_at }),
    }
  }

  async function create(task: NewTask): Promise<void> {
    const at = now()
    await db
      .insertInto('tasks')
      .values({
        id: task.id,
        caller: task.caller,
        account: task.account ?? null,
        type: task.type,
        status: task.status,
        upstream: task.upstream ?? null,
        upstream_task_id: task.upstreamTaskId ?? null,
        call_id: task.callId ?? null,
        request: JSON.stringify(task.request),
        webhook: task.webhook ? 1 : 0,
        result: null,
        error: null,
        created_at: at,
        updated_at: at,
        completed_at: isFinal(task.status) ? at : null,
      })
      .execute()
  }

  async function get(caller: string, id: string): Promise<StoredTask | undefined> {
    const row = await db
      .selectFrom('tasks')
      .selectAll()
      .where('caller', '=', caller)
      .where('id', '=', id)
      .executeTakeFirst()
    return row && fromRow(row)
  }

  async function list(
    caller: string,
    filter: TaskFilter,
    { field, direction }: TaskOrder,
    { limit, offset }: TaskPlace,
  ): Promise<TaskPage> {
    const matches = matching(caller, filter)
    const groups = await db
      .selectFrom('tasks')
      .select((eb) => ['status', eb.fn.countAll<number>().as('count')])
      .where(matches)
      .groupBy('status')
      .execute()
    const rows = await db
      .selectFrom('tasks')
      .selectAll()
      .where(matches)
      .orderBy(field, direction)
      .orderBy('id', direction)
      .limit(limit)
      .offset(offset)
      .execute()
    const statuses = Object.fromEntries(groups.map(({ status, count }) => [status, Number(count)]))
    const total = Object.values(statuses).reduce((sum, count) => sum + count, 0)
    return { tasks: rows.map(fromRow), total, statuses }
  }

  async function progress(id: string, { status, result, error }: TaskProgress): Promise<boolean> {
    const at = now()
    const updated = await db
      .updateTable('tasks')
      .set({
        status,
        result: result === undefined ? null : seal.write(result),
        error: error === undefined ? null : seal.write(error),
        updated_at: at,
        completed_at: isFinal(status) ? at : null,
      })
      .where('id', '=', id)
      .where('completed_at', 'is', null)
      .executeTakeFirst()
    return updated.numUpdatedRows === 1n
  }

  async function free(caller: string, id: string): Promise<boolean> {
    await db
      .deleteFrom('tasks')
      .where('caller', '=', caller)
      .where('id', '=', id)
      .where('completed_at', 'is not', null)
      .execute()
    return (await db.selectFrom('tasks').select('id').where('id', '=', id).executeTakeFirst()) === undefined
  }

  async function forgetFinished(before: number, limit: number): Promise<number> {
    const past = db
      .selectFrom('tasks')
      .select('id')
      .where('completed_at', '<=', before)
      .orderBy('completed_at')
      .limit(limit)
    const { numDeletedRows } = await db.deleteFrom('tasks').where('id', 'in', past).executeTakeFirst()
    return Number(numDeletedRows)
  }

  return { create, get, list, progress, free, forgetFinished }
}
