/** What buyers did and what is still under way, for operators: from the storage, without keys, credentials or what webhooks are sent to. */
import type { Repositories } from '../store/repositories.js'

const MOST_SHOWN = 200

export type ActivitySources = Pick<Repositories, 'ledger' | 'jobs' | 'subscriptions'> & {
  /** Ids of the callers of the configuration. */
  callerIds(): readonly string[]
}

const iso = (ms: number) => new Date(ms).toISOString()

/** The view of the console. Rejects with `StorageUnavailable`. */
export function createActivity({ ledger, jobs, subscriptions, callerIds }: ActivitySources) {
  async function told() {
    const found = await Promise.all(callerIds().map((caller) => subscriptions.ofCaller(caller)))
    return found.flat().map(({ caller, accountId, subscriberId, suspended }) => ({
      ...{ caller, account: accountId, subscriber: subscriberId, suspended: suspended !== undefined },
    }))
  }

  return async () => {
    const [entries, backlog, subscribers] = await Promise.all([
      ledger.query({}, MOST_SHOWN),
      jobs.backlog(),
      told(),
    ])
    return {
      activations: entries.map(
        ({ caller, action, handle, upstream, outcome, seenAs, taskId, createdAt, updatedAt }) => ({
          ...{ caller, action, handle, upstream, outcome, seen_as: seenAs },
          ...(taskId !== undefined && { task_id: taskId }),
          ...{ asked_at: iso(createdAt), updated_at: iso(updatedAt) },
        }),
      ),
      jobs: backlog,
      subscriptions: subscribers,
    }
  }
}
