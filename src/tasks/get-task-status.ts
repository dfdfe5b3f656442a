/** get_task_status: how a request that was answered `submitted` goes on (schema protocol/get-task-status-request). */
import type { Activation } from '../activation/activation.js'
import { findOwnAccount } from '../activation/own-account.js'
import { notFound } from '../activation/refusals.js'
import type { Answer, AnswerStatus } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { GetTaskStatusRequest } from '../adcp/requests/protocol-requests.js'
import { GetTaskStatusResponse } from '../adcp/responses.js'
import { isSince32, type Release } from '../adcp/version.js'
import { StorageUnavailable } from '../store/database/unavailable.js'
import type { StoredTask } from '../store/records/tasks.js'
import { historyOf, readable, shownResult, shownTask } from './shown-task.js'
import type { Task } from './task.js'

type Asking = Pick<Activation, 'store' | 'progress'>

/** The result of the task; since 3.2 a failed task has its error as the result, too. */
function resultOf(task: StoredTask, principal: Caller, release: Release): object {
  const { status, result, error } = task
  if (status === 'completed' && result !== undefined) return { result: shownResult(task, principal) }
  if (error === undefined || !isSince32(release)) return {}
  return { result: { status: 'failed', adcp_error: error, errors: [error] } }
}

export function getTaskStatus({ store, progress }: Asking): Task<typeof GetTaskStatusRequest> {
  /**
   * Asks the upstream, within `deadline`. When the upstream or the storage cannot answer, the last known state is
   * given.
   */
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
    release: Release,
  ): Promise<Answer> {
    const found =
      request.account && (await findOwnAccount(principal, request.account, store.accounts, 'account'))
    const task = await store.tasks.get(principal.id, request.task_id)
    // An account that is not the caller's has no tasks either: the same answer (schema get-task-status-request).
    if (!task || found?.kind === 'refused') return notFound('task_id')
    if (found && task.account !== found.account.key) return notFound('task_id')
    const now = await refreshed(principal, task, deadline)
    return {
      kind: 'answer',
      // The status is the task's, also when the task failed: the question itself was answered.
      status: now.status as AnswerStatus,
      message: `The task is ${now.status}.`,
      fields: {
        ...shownTask(now),
        protocol: 'signals',
        ...(now.error !== undefined && { error: now.error }),
        ...(request.include_history && { history: historyOf(now, principal) }),
        ...(request.include_result && resultOf(now, principal, release)),
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
      readable(() => status(input, caller, deadline, release)),
  }
}
