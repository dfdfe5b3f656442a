/** A caller's task as get_task_status and list_tasks show it (schemas protocol/get-task-status, protocol/list-tasks). */
import { shownSignals, visibleDeployments } from '../activation/destination.js'
import { storageDown } from '../activation/refusals.js'
import type { Caller } from '../adcp/caller.js'
import type { Refused } from '../adcp/error.js'
import type { Deployment } from '../adcp/signal.js'
import { StorageUnavailable } from '../store/database/unavailable.js'
import type { StoredTask } from '../store/records/tasks.js'

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
export function shownResult({ type, result }: StoredTask, principal: Caller): unknown {
  if (type === 'get_signals') return shownSignals(result, principal.destinations)
  const { deployments, ...more } = result as { deployments: readonly Deployment[] }
  return { deployments: visibleDeployments(deployments, principal.destinations), ...more }
}

/** What was asked and what was answered, oldest first (schema protocol/get-task-status-response, `history`). */
export function historyOf(task: StoredTask, principal: Caller) {
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

/** A storage that cannot even be read is told as SERVICE_UNAVAILABLE. */
export async function readable<T>(work: () => Promise<T>): Promise<T | Refused> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StorageUnavailable) return storageDown()
    throw error
  }
}
