/**
 * The work of all callers, newest first, for who runs the server: tasks, reports of usage, deliveries to subscribers.
 * What callers and upstreams said in it is left out.
 */
import { isRecord } from '../../adcp/json.js'
import type { Seal } from '../database/seal.js'
import type { Db } from '../database/table-types.js'

/** Instants in ms since the epoch. */
type WorkTask = {
  id: string
  caller: string
  type: string
  status: string
  upstream: string | undefined
  createdAt: number
  updatedAt: number
}

/** What one report of a caller came to at one upstream. */
type WorkUsage = { caller: string; agentUrl: string; rows: number; state: string; at: number }

type WorkDelivery = {
  caller: string
  account: string
  subscriber: string
  /** The host of its url. */
  host: string | undefined
  suspended: { reason: string; at: number } | undefined
  /** What the job knows (events/announcer.ts); undefined when it has ended. */
  stream: unknown
  nextAttemptAt: number | undefined
}

export type Work = {
  tasks(limit: number): Promise<WorkTask[]>
  usage(limit: number): Promise<WorkUsage[]>
  deliveries(limit: number): Promise<WorkDelivery[]>
}

function hostOf(config: unknown): string | undefined {
  const url = isRecord(config) ? String(config.url) : ''
  return URL.canParse(url) ? new URL(url).host : undefined
}

export function createWork(db: Db, seal: Seal): Work {
  return {
    async tasks(limit) {
      const rows = await db
        .selectFrom('tasks')
        .select(['id', 'caller', 'type', 'status', 'upstream', 'created_at', 'updated_at'])
        .orderBy('created_at', 'desc')
        .orderBy('id')
        .limit(limit)
        .execute()
      return rows.map(({ id, caller, type, status, upstream, created_at, updated_at }) => ({
        ...{ id, caller, type, status, upstream: upstream ?? undefined },
        ...{ createdAt: Number(created_at), updatedAt: Number(updated_at) },
      }))
    },
    async usage(limit) {
      const rows = await db
        .selectFrom('idempotency')
        .innerJoin('jobs', (join) =>
          join.onRef('jobs.caller', '=', 'idempotency.caller').onRef('jobs.key', '=', 'idempotency.key'),
        )
        .where('idempotency.task', '=', 'report_usage')
        .where('jobs.kind', '=', 'call')
        .select(['jobs.caller', 'jobs.lane', 'jobs.data', 'jobs.state', 'jobs.created_at'])
        .orderBy('idempotency.created_at', 'desc')
        .orderBy('jobs.seq')
        .limit(limit)
        .execute()
      return rows.map(({ caller, lane, data, state, created_at }) => {
        const call = seal.read(data)
        const rows = isRecord(call) && Array.isArray(call.rows) ? call.rows.length : 0
        return { caller, agentUrl: lane, rows, state, at: Number(created_at) }
      })
    },
    async deliveries(limit) {
      const rows = await db
        .selectFrom('subscriptions')
        .leftJoin('jobs', 'jobs.id', 'subscriptions.job')
        .select(['subscriptions.caller', 'account_id', 'subscriber_id', 'config', 'suspended'])
        .select(['jobs.data', 'jobs.due'])
        .orderBy('subscriptions.created_at', 'desc')
        .orderBy('subscriptions.job')
        .limit(limit)
        .execute()
      return rows.map(({ caller, account_id, subscriber_id, config, suspended, data, due }) => ({
        ...{ caller, account: account_id, subscriber: subscriber_id, host: hostOf(seal.read(config)) },
        suspended: suspended === null ? undefined : (JSON.parse(suspended) as WorkDelivery['suspended']),
        stream: data === null ? undefined : seal.read(data),
        nextAttemptAt: due === null ? undefined : Number(due),
      }))
    },
  }
}
