/**
 * What callers did and what is still under way, for the console: activations, tasks, usage reports, subscriptions and jobs, read
 * from the storage (docs/console.md).
 */
import { isRecord } from '../adcp/json.js'
import { shownUrl } from '../adcp/redaction.js'
import { iso } from '../authz/report.js'
import { deliveryOf } from '../events/stream.js'
import type { Work } from '../store/records/activity.js'
import type { Repositories } from '../store/store.js'

const MOST_ENTRIES = 200
const MOST_JOBS = 200

export type ActivitySources = Pick<Repositories, 'ledger' | 'work'>

type ActivityOptions = ActivitySources & {
  /** What a signal that is in the feed now is called, by its handle or an offer's. */
  nameOf(handle: string): string | undefined
}

type JobsSources = { work: Pick<Work, 'openJobs'>; now(): number }

/** Why an activation failed, as the caller was told: the words are ours, the upstream's code is a word of its own. */
function failureOf(error: unknown) {
  if (!isRecord(error) || typeof error.code !== 'string') return undefined
  const { code, message, details } = error
  const upstreamCode = isRecord(details) ? details.upstream_code : undefined
  return { code, message, ...(upstreamCode !== undefined && { upstream_code: upstreamCode }) }
}

/** The console's view of activations, tasks, usage reports, jobs and subscriptions. Rejects with `StorageUnavailable`. */
export function createActivity({ ledger, work, nameOf }: ActivityOptions) {
  async function subscriptions() {
    const found = await work.deliveries(MOST_ENTRIES)
    return found.map(({ caller, account, subscriber, host, suspended, stream, nextAttemptAt }) => {
      const { pending, failures, failingSince } = deliveryOf(stream)
      return {
        ...{ caller, account, subscriber, host, pending, failures },
        suspended: suspended !== undefined,
        ...(suspended && { reason: suspended.reason }),
        ...(failingSince !== undefined && { failing_since: iso(failingSince) }),
        ...(pending > 0 && nextAttemptAt !== undefined && { next_attempt_at: iso(nextAttemptAt) }),
      }
    })
  }

  return async () => {
    const [entries, backlog, tasks, usage, subscribers] = await Promise.all([
      ledger.query({}, MOST_ENTRIES),
      work.backlog(),
      work.tasks(MOST_ENTRIES),
      work.usage(MOST_ENTRIES),
      subscriptions(),
    ])
    return {
      activations: entries.map(({ handle, taskId, error, createdAt, updatedAt, ...entry }) => {
        const { caller, account, action, upstream, destinations, outcome, seenAs } = entry
        const [name, problem] = [nameOf(handle), failureOf(error)]
        return {
          ...{ caller, action, handle, upstream, destinations, outcome, seen_as: seenAs },
          ...(account !== undefined && { account: JSON.parse(account) as unknown }),
          ...(name !== undefined && { name }),
          ...(problem && { problem }),
          ...(taskId !== undefined && { task_id: taskId }),
          ...{ asked_at: iso(createdAt), updated_at: iso(updatedAt) },
        }
      }),
      tasks: tasks.map(({ createdAt, updatedAt, ...task }) => ({
        ...{ ...task, created_at: iso(createdAt), updated_at: iso(updatedAt) },
      })),
      usage: usage.map(({ at, agentUrl, ...report }) => ({
        ...{ ...report, agent_url: agentUrl, reported_at: iso(at) },
      })),
      jobs: backlog,
      subscriptions: subscribers,
    }
  }
}

/**
 * The jobs that have not ended, for the console: whom they are for and when they are tried next. Rejects with
 * `StorageUnavailable`.
 */
export function createJobsView({ work, now }: JobsSources) {
  return async () => {
    const jobs = await work.openJobs(MOST_JOBS)
    return {
      jobs: jobs.map(({ id, kind, lane, caller, attempts, isHeld, dueInMs, createdAt }) => ({
        ...{ id, kind, lane: shownUrl(lane), caller, attempts, is_held: isHeld },
        ...(!isHeld && { next_attempt_at: iso(now() + Math.max(0, dueInMs)) }),
        created_at: iso(createdAt),
      })),
    }
  }
}
