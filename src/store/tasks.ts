/**
 * Requests that are answered later, ours to poll (specification, "get_task_status"; schemas protocol/get-task-status
 * and protocol/list-tasks). A task belongs to one caller; no query goes across callers.
 */
import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import type { Db, Tables, TaskTable } from './schema.js'

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

/** Finished tasks are kept this long; their outcome stands in the ledger. */
export const TASK_KEEP_MS = 30 * 24 * 60 * 60 * 1_000

export type NewTask = {
  id: string
  caller: string
  /** The caller's account reference, canonical JSON. */
  account?: string
  type: 'activate_signal' | 'get_signals'
  status: TaskStatus
  /** Where the work is done, when it is an upstream that does it. */
  upstream?: string
  upstreamTaskId?: string
  /** The call that made it, when one did. */
  callId?: string
  request: unknown
  /** Its caller is notified of its end. Default: false. */
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
  /** Text that the request holds. */
  contains?: string
  webhook?: boolean
}

export type TaskOrder = { field: 'created_at' | 'updated_at' | 'status' | 'type'; direction: 'asc' | 'desc' }
export type TaskPage = { tasks: StoredTask[]; total: number; statuses: Record<string, number> }
export type TaskProgress = { status: TaskStatus; result?: unknown; error?: unknown }

export type Tasks = {
  create(task: NewTask): Promise<void>
  get(caller: string, id: string): Promise<StoredTask | undefined>
  list(caller: string, filter: TaskFilter, order: TaskOrder, limit: number, offset: number): Promise<TaskPage>
  /** False when the task had ended before: the first end stands. */
  progress(id: string, progress: TaskProgress): Promise<boolean>
  /** Open tasks of upstreams that nobody asked about since `before`, oldest question first. */
  unpolled(before: number, limit: number): Promise<StoredTask[]>
  /** True for the one asker that may ask the upstream now: nobody did since `before`. */
  claimPoll(id: string, before: number): Promise<boolean>
  forgetFinished(before: number): Promise<void>
}

/** Whether a task in this status has ended. */
export function isFinal(status: TaskStatus): boolean {
  return FINAL.has(status)
}

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
    ...(row.result !== null && { result: JSON.parse(row.result) as unknown }),
    ...(row.error !== null && { error: JSON.parse(row.error) as unknown }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    ...(row.completed_at !== null && { completedAt: row.completed_at }),
  }
}

/** Text for LIKE in which the caller's `%` and `_` stand for themselves. */
function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, (character) => `\\${character}`)}%`
}

const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))

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
    if (filter.contains !== undefined) {
      conditions.push(sql<boolean>`request like ${containing(filter.contains)} escape '\\'` as never)
    }
    return eb.and(conditions)
  }
}

export function createTasks(db: Db, now: () => number): Tasks {
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
        polled_at: at,
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
    limit: number,
    offset: number,
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
        result: json(result),
        error: json(error),
        updated_at: at,
        completed_at: isFinal(status) ? at : null,
      })
      .where('id', '=', id)
      .where('completed_at', 'is', null)
      .executeTakeFirst()
    return updated.numUpdatedRows === 1n
  }

  async function unpolled(before: number, limit: number): Promise<StoredTask[]> {
    const rows = await db
      .selectFrom('tasks')
      .selectAll()
      .where('completed_at', 'is', null)
      .where('upstream_task_id', 'is not', null)
      .where('polled_at', '<=', before)
      .orderBy('polled_at')
      .limit(limit)
      .execute()
    return rows.map(fromRow)
  }

  async function claimPoll(id: string, before: number): Promise<boolean> {
    const claimed = await db
      .updateTable('tasks')
      .set({ polled_at: now() })
      .where('id', '=', id)
      .where('completed_at', 'is', null)
      .where('polled_at', '<=', before)
      .executeTakeFirst()
    return claimed.numUpdatedRows === 1n
  }

  async function forgetFinished(before: number): Promise<void> {
    await db.deleteFrom('tasks').where('completed_at', '<=', before).execute()
  }

  return { create, get, list, progress, unpolled, claimPoll, forgetFinished }
}
