/**
 * What happened and what is under way, for people who look at it. The work of all callers: jobs that have not ended, and, newest
 * first, tasks, reports of usage, deliveries to subscribers. What callers and upstreams said in it is left out: only whoever carries
 * a job out reads its data. What operators did, who did it and when; and how signals of the feed changed, when a price moved or who
 * left: bounded, the oldest rows are deleted.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { isRecord } from '../../adcp/json.js'
import type { Db, SignalChangeTable, SqlDialect } from '../database/database.js'
import type { Seal } from '../database/seal.js'

const STANDING = 'feed_events'
const NO_WORK = 'turn' // says which process does the work of all; there is nothing in it to be done

const MOST_ENTRIES = 10_000
const MOST_CHANGES = 100_000
const SWEEP_EVERY = 1_000 // rows written: the table is at most so much longer than it may be
const BATCH_ROWS = 500 // of one statement: well under the bound-parameter limits of both databases

type OpenJob = {
  id: string
  kind: string
  lane: string
  caller: string
  attempts: number
  /** A process works on it now. */
  isHeld: boolean
  /** When it may be claimed, or when the lease of its holder ends: ms from now, negative when that is past. */
  dueInMs: number
  createdAt: number
}

/** Instants here, and in what follows, in ms since the epoch. */
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
  /** What the job knows (events/stream.ts); undefined when it has ended. */
  stream: unknown
  nextAttemptAt: number | undefined
}

export type Work = {
  /** Those that failed most often first; standing ones (one for each subscription to the feed) after all others. */
  openJobs(limit: number): Promise<OpenJob[]>
  /** Undefined when it has ended, or never was. */
  openJob(id: string): Promise<OpenJob | undefined>
  /** How many jobs are open, by kind and lane. */
  backlog(): Promise<{ kind: string; lane: string; open: number }[]>
  tasks(limit: number): Promise<WorkTask[]>
  usage(limit: number): Promise<WorkUsage[]>
  deliveries(limit: number): Promise<WorkDelivery[]>
}

function hostOf(config: unknown): string | undefined {
  const url = isRecord(config) ? String(config.url) : ''
  return URL.canParse(url) ? new URL(url).host : undefined
}

export function createWork(db: Db, dialect: SqlDialect, seal: Seal): Work {
  const open = () =>
    db
      .selectFrom('jobs')
      .select(['id', 'kind', 'lane', 'caller', 'attempts', 'owner', 'created_at'])
      .select(sql<number>`due - ${dialect.now()}`.as('due_in'))
      .where('due', 'is not', null)
      .where('kind', '<>', NO_WORK)
  type Row = Awaited<ReturnType<ReturnType<typeof open>['execute']>>[number]

  function fromRow({ id, kind, lane, caller, attempts, owner, due_in, created_at }: Row): OpenJob {
    const dueInMs = Number(due_in)
    return {
      ...{ id, kind, lane, caller, attempts, dueInMs },
      isHeld: owner !== null && dueInMs > 0,
      createdAt: Number(created_at),
    }
  }

  return {
    async openJobs(limit) {
      const rows = await open()
        .orderBy(sql`case when kind = ${STANDING} then 1 else 0 end`)
        .orderBy('attempts', 'desc')
        .orderBy('seq')
        .limit(limit)
        .execute()
      return rows.map(fromRow)
    },
    async openJob(id) {
      const row = await open().where('id', '=', id).executeTakeFirst()
      return row && fromRow(row)
    },
    async backlog() {
      const rows = await db
        .selectFrom('jobs')
        .select((eb) => ['kind', 'lane', eb.fn.countAll<number>().as('open')])
        .where('due', 'is not', null)
        .groupBy(['kind', 'lane'])
        .execute()
      return rows.map((row) => ({ ...row, open: Number(row.open) }))
    },
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

export type AuditEntry = {
  who: string
  action: string
  /** The upstream or caller that it concerns. */
  subject: string
  /** `done`, or why it failed. */
  outcome: string
}

export type Audit = {
  note(entry: AuditEntry): Promise<void>
  /** The newest entries, newest first; `at` in ms since the epoch. */
  last(limit: number): Promise<(AuditEntry & { at: number })[]>
}

/** `now`: ms since the epoch. */
export function createAudit(db: Db, now: () => number): Audit {
  let noted = 0
  /** In the order of their entries, which may be of one millisecond. */
  const nextId = () => `${String(++noted).padStart(15, '0')}-${randomUUID()}`

  return {
    async note(entry) {
      await db
        .insertInto('audit')
        .values({ id: nextId(), at: now(), ...entry })
        .execute()
      const excess = db.selectFrom('audit').select('at').orderBy('at', 'desc').limit(1).offset(MOST_ENTRIES)
      await db.deleteFrom('audit').where('at', '<=', excess).execute()
    },
    async last(limit) {
      const rows = await db
        .selectFrom('audit')
        .selectAll()
        .orderBy('at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
      return rows.map(({ id: _, at, ...entry }) => ({ ...entry, at: Number(at) }))
    },
  }
}

/** `at` in ms since the epoch; `many`: so many signals changed at once that it is not known which. */
export type SignalChange = Pick<SignalChangeTable, 'at' | 'kind'> & {
  told: Readonly<Record<string, unknown>>
}

export type SignalChanges = {
  /** The handle of the signal; empty for `many`. */
  note(changes: readonly (SignalChange & { handle: string })[]): Promise<void>
  /** The last changes of a signal, and since the first of them those of many signals; oldest first. */
  of(handle: string, limit: number): Promise<SignalChange[]>
}

export function createSignalChanges(db: Db): SignalChanges {
  let unswept = SWEEP_EVERY // the table of an earlier process is looked at with the first rows

  const last = (handle: string, limit: number) =>
    db
      .selectFrom('signal_changes')
      .selectAll()
      .where('handle', '=', handle)
      .orderBy('at', 'desc')
      .orderBy('id')
      .limit(limit)

  return {
    async note(changes) {
      for (let from = 0; from < changes.length; from += BATCH_ROWS) {
        const rows = changes
          .slice(from, from + BATCH_ROWS)
          .map(({ told, ...change }) => ({ id: randomUUID(), ...change, told: JSON.stringify(told) }))
        await db.insertInto('signal_changes').values(rows).execute()
      }
      unswept += changes.length
      if (unswept < SWEEP_EVERY) return
      unswept = 0
      const excess = db
        .selectFrom('signal_changes')
        .select('at')
        .orderBy('at', 'desc')
        .limit(1)
        .offset(MOST_CHANGES)
      await db.deleteFrom('signal_changes').where('at', '<=', excess).execute()
    },
    async of(handle, limit) {
      const own = await last(handle, limit).execute()
      const since = Number(own.at(-1)?.at ?? 0)
      const many = await last('', limit).where('at', '>', since).execute()
      return [...own, ...many]
        .map(({ at, kind, told }) => ({
          at: Number(at),
          kind,
          told: JSON.parse(told) as SignalChange['told'],
        }))
        .sort((one, other) => one.at - other.at)
        .slice(-limit)
    },
  }
}
