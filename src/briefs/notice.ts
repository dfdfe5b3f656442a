/**
 * The notice of a task's end, as a job: added in the unit of work that ends the question, and sent until the receiver accepts
 * it or a day has passed (specification, "Events").
 */
import { shownSignals } from '../activation/holders.js'
import type { Destination } from '../adcp/signal.js'
import { hasLostSecret, type PushConfig, type Webhook, type WebhookOutcome } from '../events/webhook.js'
import type { Clock } from '../net/clock.js'
import type { Held, Jobs } from '../store/jobs.js'
import type { StoredTask } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import { pauseAfter } from '../store/worker.js'

/** Its caller is not configured: told nothing, unless it is back in time. */
const NOT_NOW: WebhookOutcome = { kind: 'undelivered', reason: 'there is no such caller any more' }

/** A notice that is not accepted so long is given up. */
const GIVE_UP_MS = 24 * 60 * 60_000
const LONGEST_NOTICE_PAUSE_MS = 3_600_000

/** What the job of a question holds for the notice of its end. */
export type Noticed = { push?: PushConfig; contextId: string }

/** The data of the job that tells a caller of its task's end. */
type Notice = Required<Noticed> & { taskId: string }

/**
 * Ends the job of a question with the state of its task, and adds the job of the notice that was asked for. False where another
 * process holds it, or it had ended.
 */
export async function endQuestion(jobs: Jobs, held: Held, taskId: string, state: string): Promise<boolean> {
  const { push, contextId } = held.data as Noticed
  if (!(await jobs.end(held, state))) return false
  if (push) {
    const data: Notice = { taskId, contextId, push }
    const { caller } = held // its lane: who names many receivers that hang keeps no others waiting
    await jobs.add({ id: `${held.id}_notice`, kind: 'notice', lane: caller, caller, data })
  }
  return true
}

/** The terminal notification (schema core/mcp-webhook-payload). */
function bodyOf(task: StoredTask, { contextId, push }: Notice, grants: readonly Destination[]): string {
  const failed = task.status !== 'completed'
  return JSON.stringify({
    idempotency_key: `whk_${task.id}_end`, // the same for all retries: a task ends once
    operation_id: push.operation_id ?? task.id,
    task_id: task.id,
    task_type: 'get_signals',
    protocol: 'signals',
    status: task.status,
    timestamp: new Date(task.completedAt ?? task.updatedAt).toISOString(),
    message: failed ? 'The question could not be answered.' : (task.result as { message: string }).message,
    context_id: contextId,
    ...(push.token !== undefined && { token: push.token }),
    result: failed
      ? { status: 'failed', adcp_error: task.error, errors: [task.error] }
      : shownSignals(task.result, grants),
  })
}

export type NoticesOptions = {
  store: Pick<Store, 'tasks' | 'jobs'>
  webhook: Webhook
  clock: Clock
  /** The destinations whose keys a caller may see now; undefined when there is no such caller any more. */
  grantsOf(caller: string): readonly Destination[] | undefined
  /** Receives what an operator should know. */
  onTrouble(message: string): void
}

/**
 * The work of jobs of kind `notice`: how one is done, and how it is given up. For a day, with growing pauses, across restarts,
 * with the same bytes as long as the caller's grants are the same.
 */
export function createNotices({ store, webhook, clock, grantsOf, onTrouble }: NoticesOptions) {
  async function giveUp(held: Held, { taskId }: Notice, reason: string): Promise<void> {
    onTrouble(`task ${taskId}: its notification was not taken (${reason})`)
    await store.jobs.end(held, 'abandoned')
  }

  /** Sends the notice once; if it is not accepted, it is sent again later. */
  async function run(held: Held): Promise<void> {
    const notice = held.data as Notice
    const task = await store.tasks.get(held.caller, notice.taskId)
    if (!task) return void (await store.jobs.end(held, 'abandoned'))
    if (hasLostSecret(notice.push)) {
      return await giveUp(held, notice, 'what it is signed with was not stored: set storage.key')
    }
    const { caller } = held
    const grants = grantsOf(caller)
    const delivery = grants ? await webhook(caller, notice.push, bodyOf(task, notice, grants)) : NOT_NOW
    if (delivery.kind === 'delivered') return void (await store.jobs.end(held, 'delivered'))
    const wait = Math.max(pauseAfter(held.attempts, LONGEST_NOTICE_PAUSE_MS), delivery.retryAfterMs ?? 0)
    if (delivery.kind === 'rejected' || clock.now() + wait > held.createdAt + GIVE_UP_MS) {
      return await giveUp(held, notice, delivery.reason)
    }
    await store.jobs.release(held, wait)
  }

  return {
    run,
    longestPauseMs: LONGEST_NOTICE_PAUSE_MS,
    giveUp: (held: Held) => giveUp(held, held.data as Notice, 'an operator gave it up'),
  }
}
