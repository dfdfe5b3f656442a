/**
 * get_task_status: how a request that was answered `submitted` goes on (schema protocol/get-task-status-request). A task is
 * shown here as list_tasks shows it, too: to its caller only, with what this caller may see now.
 */
import { findOwnAccount } from '../activation/accounts.js'
import { type Activation, unlessStorageDown } from '../activation/activation.js'
import { shownSignals, visibleDeployments } from '../activation/holders.js'
import { notFound } from '../activation/route.js'
import { type Answer, type AnswerStatus, isSince32, type Release } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import type { Deployment } from '../adcp/signal.js'
import { GetTaskStatusRequest, GetTaskStatusResponse } from '../adcp/task-schemas.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { StoredTask } from '../store/records/tasks.js'
import type { Task } from './task.js'

type Asking = Pick<Activation, 'store' | 'progress'>

const iso = (ms: number) => new Date(ms).toISOString()

/** Without its result and its history, which only some answers have. */
export function shownTask(task: StoredTask) {
  return {
    task_id: task.id,
    task_type: task.type,
    created_at: iso(task.createdAt),
    updated_at: iso(task.updatedAt),
    ...(task.completedAt !== undefined && { completed_at: iso(task.completedAt) }),
    has_webhook: task.webhook ?? false,
  }
}

/** A result with keys only for callers who may see them now. */
function shownResult({ type, result }: StoredTask, caller: Caller): unknown {
  if (type === 'get_signals') return shownSignals(result, caller.destinations)
  const { deployments, ...more } = result as { deployments: readonly Deployment[] }
  return { deployments: visibleDeployments(deployments, caller.destinations), ...more }
}

/** What was asked and what was answered, oldest first (schema protocol/get-task-status-response, `history`). */
export function historyOf(task: StoredTask, caller: Caller) {
  const { id, status, request, error, createdAt, completedAt } = task
  const asked = { timestamp: iso(createdAt), type: 'request', data: request }
  const said = { timestamp: iso(createdAt), type: 'response', data: { status: 'submitted', task_id: id } }
  if (completedAt === undefined) return [asked, said]
  const data = {
    status,
    ...(task.result !== undefined && { result: shownResult(task, caller) }),
    ...(error !== undefined && { error }),
  }
  return [asked, said, { timestamp: iso(completedAt), type: 'response', data }]
}

/** The result of the task; since 3.2 a failed task has its error as the result, too. */
function resultOf(task: StoredTask, caller: Caller, release: Release): object {
  const { status, result, error } = task
  if (status === 'completed' && result !== undefined) return { result: shownResult(task, caller) }
  if (error === undefined || !isSince32(release)) return {}
  return { result: { status: 'failed', adcp_error: error, errors: [error] } }
}

export function getTaskStatus({ store, progress }: Asking): Task<typeof GetTaskStatusRequest> {
  /**
   * Asks the upstream, within `deadline`. When the upstream or the storage cannot answer, the last known state is
   * given.
   */
  async function refreshed(caller: Caller, task: StoredTask, deadline: number): Promise<StoredTask> {
    try {
      await progress.advance(task, deadline)
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error // reads go on while writes cannot
      return task
    }
    return (await store.tasks.get(caller.id, task.id)) ?? task
  }

  async function status(
    request: GetTaskStatusRequest,
    caller: Caller,
    deadline: number,
    release: Release,
  ): Promise<Answer> {
    const found =
      request.account && (await findOwnAccount(caller, request.account, store.accounts, 'account'))
    const task = await store.tasks.get(caller.id, request.task_id)
    // An account that is not the caller's has no tasks either: the same answer (schema get-task-status-request).
    if (!task || found?.kind === 'refused') return notFound('task_id')
    if (found && task.account !== found.account.key) return notFound('task_id')
    const now = await refreshed(caller, task, deadline)
    return {
      kind: 'answer',
      // The status is the task's, also when the task failed: the question itself was answered.
      status: now.status as AnswerStatus,
      message: `The task is ${now.status}.`,
      fields: {
        ...shownTask(now),
        protocol: 'signals',
        ...(now.error !== undefined && { error: now.error }),
        ...(request.include_history && { history: historyOf(now, caller) }),
        ...(request.include_result && resultOf(now, caller, release)),
      },
    }
  }

  return {
    name: 'get_task_status',
    answersTo: ['tasks/get', 'tasks_get'], // names of two generations of clients
    title: 'Ask how a task goes on',
    description:
      'Gives the status of a task whose task_id an earlier answer named. Send include_result true to get the result ' +
      'once the status is completed. Ask every few seconds, not faster.',
    request: GetTaskStatusRequest,
    response: GetTaskStatusResponse,
    mutating: false,
    handle: (input, { caller, deadline, release }) =>
      unlessStorageDown(() => status(input, caller, deadline, release)),
  }
}
