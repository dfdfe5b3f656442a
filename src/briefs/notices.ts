/**
 * Tells callers that their task has ended, until they take it (specification, "Events"): tried again for a day with
 * growing pauses, over restarts, always the same bytes.
 */

import type { PushConfig } from '../events/push-config.js'
import type { Webhook } from '../events/webhook.js'
import type { Clock } from '../net/clock.js'
import { pause } from '../net/pause.js'
import type { StoredTask } from '../store/tasks.js'
import type { TaskRecord, TaskRecords } from './task-record.js'

const RETRY_MS = [1_000, 5_000, 30_000, 120_000, 600_000, 1_800_000]
const RETRY_THEN_MS = 3_600_000
const GIVE_UP_MS = 24 * 60 * 60_000

export type NoticesOptions = {
  records: TaskRecords
  webhook: Webhook
  clock: Clock
  /** Goes off when we are closing: what is undelivered then goes on with the next start. */
  closing: AbortSignal
  onTrouble(message: string): void
}

/** The terminal notification (schema core/mcp-webhook-payload). */
function noticeOf(task: StoredTask, { contextId }: TaskRecord, push: PushConfig, nowMs: number): string {
  const failed = task.status !== 'completed'
  return JSON.stringify({
    idempotency_key: `whk_${task.id}_end`, // the same over retries and restarts: a task ends once
    operation_id: push.operation_id ?? task.id,
    task_id: task.id,
    task_type: 'get_signals',
    protocol: 'signals',
    status: task.status,
    timestamp: new Date(task.completedAt ?? nowMs).toISOString(),
    message: failed ? 'The question could not be answered.' : (task.result as { message: string }).message,
    context_id: contextId,
    ...(push.token !== undefined && { token: push.token }),
    result: failed ? { status: 'failed', adcp_error: task.error, errors: [task.error] } : task.result,
  })
}

export function createNotices({ records, webhook, clock, closing, onTrouble }: NoticesOptions) {
  /** Delivers the notice of an ended task, and forgets the task's record when there is nothing left to do. */
  async function deliver(record: TaskRecord, task: StoredTask): Promise<void> {
    const { id, push } = record
    if (!push) return await records.remove(id)
    const now = clock.now()
    let notice = record.notice ?? {
      ...{ body: noticeOf(task, record, push, now), attempts: 0, since: now, nextAt: now },
    }
    await records.write({ ...record, notice })
    while (!closing.aborted) {
      const delivery = await webhook(push, notice.body)
      if (delivery.kind === 'delivered') return await records.remove(id)
      const asked = delivery.kind === 'undelivered' ? (delivery.retryAfterMs ?? 0) : 0
      const wait = Math.max(RETRY_MS[notice.attempts] ?? RETRY_THEN_MS, asked)
      const nextAt = clock.now() + wait
      if (delivery.kind === 'rejected' || nextAt > notice.since + GIVE_UP_MS) {
        onTrouble(`task ${id}: its notification was not taken (${delivery.reason})`)
        return await records.remove(id)
      }
      notice = { ...notice, attempts: notice.attempts + 1, nextAt }
      await records.write({ ...record, notice })
      await pause(clock, wait, closing)
    }
  }

  return { deliver }
}
