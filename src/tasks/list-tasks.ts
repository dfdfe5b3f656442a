/** list_tasks: a caller's own tasks, for reconciliation (schema protocol/list-tasks-request). */
import { findOwnAccount } from '../activation/accounts.js'
import { unlessStorageDown } from '../activation/activation.js'
import { type Answer, howMany } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { BAD_CURSOR } from '../adcp/signal-requests.js'
import { ListTasksRequest, ListTasksResponse } from '../adcp/task-schemas.js'
import { createListCursors } from '../feed/cursor.js'
import type { TaskFilter, TaskOrder } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import { historyOf, shownTask } from './get-task-status.js'
import type { Task } from './task.js'

const PAGE = 50
const LARGEST_PAGE = 100

export type ListOptions = {
  store: Store
  /** What cursors are signed with: the same for all processes that share the storage. */
  secret: string | Uint8Array
}

/** How many rows a page of a list has, of tasks and of accounts alike. */
export function rowsOfPage({ max_results: asked = PAGE }: { max_results?: number | undefined } = {}): number {
  return Math.min(asked, LARGEST_PAGE)
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

export function listTasks({ store, secret }: ListOptions): Task<typeof ListTasksRequest> {
  /** They say how many tasks are before their page. */
  const cursors = createListCursors(secret, 'tasks')

  async function list(request: ListTasksRequest, caller: Caller): Promise<Answer> {
    const found =
      request.account && (await findOwnAccount(caller, request.account, store.accounts, 'account'))
    if (found?.kind === 'refused') return found
    const filter = filterOf(request, found?.account.key)
    const order = orderOf(request)
    const asked = { filter, order }
    const given = request.pagination?.cursor
    const before = given === undefined ? '0' : cursors.read(given, asked, caller.id)
    if (before === undefined) return { kind: 'refused', error: BAD_CURSOR }
    const offset = Number(before)
    const limit = rowsOfPage(request.pagination)
    const page = filter
      ? await store.tasks.list(caller.id, filter, order, { limit, offset })
      : { tasks: [], total: 0, statuses: {} }
    const next = offset + page.tasks.length
    const more = page.tasks.length > 0 && next < page.total
    return {
      kind: 'answer',
      message: `${page.tasks.length} of ${howMany(page.total, 'task')}.`,
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
          ...shownTask(task),
          ...{ domain: 'signals', status: task.status },
          ...(request.include_history && { history: historyOf(task, caller) }),
        })),
        pagination: {
          has_more: more,
          ...(more && { cursor: cursors.write(String(next), asked, caller.id) }),
          total_count: page.total,
        },
      },
    }
  }

  return {
    name: 'list_tasks',
    title: 'List your tasks',
    description:
      'Lists your own tasks, newest first: filter by status, type and time, and page with pagination.',
    request: ListTasksRequest,
    response: ListTasksResponse,
    mutating: false,
    handle: (input, { caller }) => unlessStorageDown(() => list(input, caller)),
  }
}
