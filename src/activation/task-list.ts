/**
 * get_task_status and list_tasks: a caller's tasks as the protocol shows them (schemas protocol/get-task-status,
 * protocol/list-tasks). A task of another caller or another account is not found, as one that never was.
 */

import type { Caller } from '../adcp/caller.js'
import { plainCursors } from '../adcp/cursor.js'
import type { Refused } from '../adcp/error.js'
import type { GetTaskStatusRequest, ListTasksRequest } from '../adcp/requests/task-requests.js'
import type { Deployment } from '../adcp/signal.js'
import type { StoredTask, TaskFilter, TaskOrder, TaskStatus } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import { StorageUnavailable } from '../store/unavailable.js'
import { findOwnAccount } from './accounts/principal.js'
import { notFound, refuse, storageDown } from './answer.js'
import type { TaskProgressing } from './delivery/task-progress.js'
import { shownSignals, visibleDeployments } from './destination.js'

const PAGE = 50
const LARGEST_PAGE = 100

export type TaskStatusAnswer =
  | { kind: 'answer'; status: TaskStatus; message: string; fields: Record<string, unknown> }
  | Refused

export type TaskListAnswer = { kind: 'answer'; message: string; fields: Record<string, unknown> } | Refused

const iso = (ms: number) => new Date(ms).toISOString()

function common(task: StoredTask) {
  return {
    task_id: task.id,
    task_type: task.type,
    created_at: iso(task.createdAt),
    updated_at: iso(task.updatedAt),
    ...(task.completedAt !== undefined && { completed_at: iso(task.completedAt) }),
    has_webhook: task.webhook ?? false,
  }
}

/** A result with keys only for who may see them now. */
function shownResult({ type, result }: StoredTask, principal: Caller): unknown {
  if (type === 'get_signals') return shownSignals(result, principal.destinations)
  const { deployments, ...more } = result as { deployments: readonly Deployment[] }
  return { deployments: visibleDeployments(deployments, principal.destinations), ...more }
}

/** What was asked and what was answered, oldest first (schema protocol/get-task-status-response, `history`). */
function historyOf(task: StoredTask, principal: Caller) {
  const { id, status, request, error, createdAt, completedAt } = task
  const asked = { timestamp: iso(createdAt), type: 'request', data: request }
  const said = { timestamp: iso(createdAt), type: 'response', data: { status: 'submitted', task_id: id } }
  if (completedAt === undefined) return [asked, said]
  const data = {
    status,
    ...(task.result !== undefined && { result: shownResult(task, principal) }),
    ...(error !== undefined && { error }),
  }
  return [asked, said, { timestamp: iso(completedAt), type: 'response', data }]
}

const either = (one: string | undefined, several: readonly string[] | undefined) =>
  one === undefined ? several : several ? several.filter((each) => each === one) : [one]

const instant = (text: string | undefined) => (text === undefined ? undefined : Date.parse(text))

/** Undefined when nothing of ours can match: all our tasks are of the signals protocol. */
function filterOf({ filters = {} }: ListTasksRequest, account: string | undefined): TaskFilter | undefined {
  const protocols = either(filters.protocol, filters.protocols)
  if (protocols && !protocols.includes('signals')) return undefined
  const filter: Record<string, unknown> = {
    account,
    ids: filters.task_ids,
    types: either(filters.task_type, filters.task_types),
    statuses: either(filters.status, filters.statuses),
    createdAfter: instant(filters.created_after),
    createdBefore: instant(filters.created_before),
    updatedAfter: instant(filters.updated_after),
    updatedBefore: instant(filters.updated_before),
    contains: filters.context_contains,
    webhook: filters.has_webhook,
  }
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  if (given.some(([, value]) => Array.isArray(value) && value.length === 0)) return undefined
  return Object.fromEntries(given)
}

function orderOf({ sort = {} }: ListTasksRequest): TaskOrder {
  const { field = 'created_at', direction = 'desc' } = sort
  if (field === 'protocol') return { field: 'created_at', direction } // all are of one protocol
  return { field: field === 'task_type' ? 'type' : field, direction }
}

/** A cursor says how many tasks are before its page. */
const CURSORS = plainCursors('tasks')

/** Undefined for a cursor that is not one of list_tasks. */
function offsetOf(cursor: string | undefined): number | undefined {
  if (cursor === undefined) return 0
  const place = CURSORS.read(cursor) ?? ''
  return /^\d{1,9}$/.test(place) ? Number(place) : undefined
}

export function createTaskList({ store, progress }: { store: Store; progress: TaskProgressing }) {
  /** The upstream is asked, within `deadline`; when it or the storage cannot say, what was known last is told. */
  async function refreshed(principal: Caller, task: StoredTask, deadline: number): Promise<StoredTask> {
    try {
      await progress.advance(task, deadline)
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error // reads go on while writes cannot
      return task
    }
    return (await store.tasks.get(principal.id, task.id)) ?? task
  }

  async function status(
    request: GetTaskStatusRequest,
    principal: Caller,
    deadline: number,
  ): Promise<TaskStatusAnswer> {
    const found =
      request.account && (await findOwnAccount(principal, request.account, store.accounts, 'account'))
    const task = await store.tasks.get(principal.id, request.task_id)
    // An account that is not the caller's has no tasks either: the same answer (schema get-task-status-request).
    if (!task || found?.kind === 'refused') return notFound('task_id')
    if (found && task.account !== found.account.key) return notFound('task_id')
    const now = await refreshed(principal, task, deadline)
    const withResult =
      request.include_result === true && now.status === 'completed' && now.result !== undefined
    return {
      kind: 'answer',
      status: now.status,
      message: `The task is ${now.status}.`,
      fields: {
        ...common(now),
        protocol: 'signals',
        ...(now.error !== undefined && { error: now.error }),
        ...(request.include_history && { history: historyOf(now, principal) }),
        ...(withResult && { result: shownResult(now, principal) }),
      },
    }
  }

  async function list(request: ListTasksRequest, principal: Caller): Promise<TaskListAnswer> {
    const offset = offsetOf(request.pagination?.cursor)
    if (offset === undefined) {
      return refuse('INVALID_REQUEST', 'This cursor is not one of list_tasks.', {
        field: 'pagination.cursor',
        suggestion: 'Restart from the first page, without a cursor.',
      })
    }
    const found =
      request.account && (await findOwnAccount(principal, request.account, store.accounts, 'account'))
    if (found?.kind === 'refused') return found
    const filter = filterOf(request, found?.account.key)
    const order = orderOf(request)
    const limit = Math.min(request.pagination?.max_results ?? PAGE, LARGEST_PAGE)
    const page = filter
      ? await store.tasks.list(principal.id, filter, order, limit, offset)
      : { tasks: [], total: 0, statuses: {} }
    const next = offset + page.tasks.length
    const more = page.tasks.length > 0 && next < page.total
    return {
      kind: 'answer',
      message: `${page.tasks.length} of ${page.total} tasks.`,
      fields: {
        query_summary: {
          total_matching: page.total,
          returned: page.tasks.length,
          domain_breakdown: { signals: page.total },
          status_breakdown: page.statuses,
          filters_applied: Object.keys(request.filters ?? {}),
          sort_applied: { field: request.sort?.field ?? 'created_at', direction: order.direction },
        },
        tasks: page.tasks.map((task) => ({
          ...common(task),
          ...{ domain: 'signals', status: task.status },
          ...(request.include_history && { history: historyOf(task, principal) }),
        })),
        pagination: {
          has_more: more,
          ...(more && { cursor: CURSORS.write(String(next)) }),
          total_count: page.total,
        },
      },
    }
  }

  /** A storage that cannot even be read is told as SERVICE_UNAVAILABLE. */
  async function readable<T>(work: () => Promise<T>): Promise<T | Refused> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof StorageUnavailable) return storageDown()
      throw error
    }
  }

  return {
    status: (request: GetTaskStatusRequest, principal: Caller, deadline: number) =>
      readable(() => status(request, principal, deadline)),
    list: (request: ListTasksRequest, principal: Caller) => readable(() => list(request, principal)),
  }
}
