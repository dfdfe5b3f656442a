/** What the first release left open goes on as jobs: its calls, the tasks that upstreams work on, and its questions. */
import { type Kysely, sql } from 'kysely'
import type { Blobs } from '../upstreams/rows/storage.js'
import { callJob, type NewCall } from './call.js'
import type { Db } from './database/database.js'
import type { PromisedRecords } from './promised-work.js'

const BATCH = 200 // rows in a transaction
const QUESTIONS = 'discovery/'
const LOST = {
  code: 'SERVICE_UNAVAILABLE',
  message: 'What was known of this question is lost; ask it again.',
}

/** The table of the first release: the columns that are read. */
type OldCall = {
  id: string
  caller: string
  key: string
  task: string
  upstream: string
  upstream_key: string
  target: string
  args: string
  rows: string
  state: string
  answer: string | null
  lease_until: number
  created_at: number
}

type OldQuestion = {
  id: string
  reader: { caller: string }
  createdAt: number
}

type Old = Kysely<{ calls: OldCall }>
type CarryStep = (records: PromisedRecords, tx: Db) => Promise<boolean>

/** Turns the oldest calls of the first release into jobs; false when none is left. */
async function carryCalls({ jobs, ledger }: PromisedRecords, tx: Db, shared: boolean): Promise<boolean> {
  const old = tx as unknown as Old
  const calls = await old
    .selectFrom('calls')
    .selectAll()
    // A process of the first release may still work on it.
    .$if(shared, (query) =>
      query.where((eb) => eb.or([eb('state', '!=', 'open'), eb('lease_until', '<=', Date.now())])),
    )
    .orderBy('created_at')
    .orderBy('id')
    .limit(BATCH)
    .execute()
  for (const call of calls) {
    const { id, caller, key, task, upstream, target, state, answer } = call
    const entry = await ledger.get(id)
    const isOpen = state === 'open'
    const job = callJob({
      ...{ id, caller, key, agentUrl: entry?.agentUrl ?? upstream, upstreamKey: call.upstream_key },
      ...{ task: task as NewCall['task'], seenAs: 'shared' },
      args: JSON.parse(call.args) as NewCall['args'],
      rows: JSON.parse(call.rows) as number[],
      ...(target !== '' && { segment: target }),
      ...(entry?.account !== undefined && { account: entry.account }),
    })
    // An open call may already have been sent, so it counts as an attempt.
    const added = await jobs.add({ ...job, createdAt: call.created_at }, { owner: 'first release', ms: 0 })
    if (!added.isHeld) continue
    if (isOpen) await jobs.release(added.job, 0)
    else await jobs.end(added.job, state, answer === null ? undefined : (JSON.parse(answer) as unknown))
  }
  const ids = calls.map(({ id }) => id)
  if (ids.length > 0) await old.deleteFrom('calls').where('id', 'in', ids).execute()
  return ids.length > 0
}

/**
 * Open tasks without a job: an upstream's task gets a job that asks about it; a question whose record is gone has
 * failed.
 */
async function carryTasks({ jobs, ledger, tasks }: PromisedRecords, tx: Db): Promise<boolean> {
  const open = await tx
    .selectFrom('tasks')
    .select(['id', 'caller', 'type', 'upstream', 'upstream_task_id', 'call_id'])
    .where('completed_at', 'is', null)
    .where((eb) =>
      eb.not(eb.exists(eb.selectFrom('jobs').select('jobs.id').whereRef('jobs.id', '=', 'tasks.id'))),
    )
    .limit(BATCH)
    .execute()
  for (const { id, caller, type, upstream, upstream_task_id: upstreamTaskId, call_id: callId } of open) {
    const entry = callId === null ? undefined : await ledger.get(callId)
    if (type === 'activate_signal' && upstream !== null && upstreamTaskId !== null) {
      const agentUrl = entry?.agentUrl ?? upstream
      const data = { agentUrl, upstreamTaskId, ...(callId !== null && { callId }) }
      await jobs.add({ id, kind: 'upstream_task', lane: agentUrl, caller, data })
    } else await tasks.progress(id, { status: 'failed', error: LOST })
  }
  return open.length > 0
}

/** The first release stored questions as blobs, apart from the rest of the state. */
async function carryQuestion(blobs: Blobs, name: string, { jobs, tasks }: PromisedRecords): Promise<void> {
  const parts = await blobs.read(name)
  const record = parts && (JSON.parse(Buffer.concat(parts).toString()) as OldQuestion)
  const task = record && (await tasks.get(record.reader.caller, record.id))
  if (!record || !task || (await jobs.get(record.id))) return
  const { caller } = record.reader
  const kind = task.completedAt === undefined ? 'question' : 'notice'
  await jobs.add({ id: record.id, kind, lane: caller, caller, data: record, createdAt: record.createdAt })
}

type CarryOverOptions = {
  write<T>(work: (records: PromisedRecords, tx: Db) => Promise<T>): Promise<T>
  blobs: Blobs
  shared: boolean
}

/**
 * Turns what the first release left open into jobs: its calls, the tasks that upstreams work on, and the questions that it stored as
 * blobs. This happens once; a database without such data costs one query. When it is interrupted, the next start continues.
 */
export async function carryOver({ write, blobs, shared }: CarryOverOptions): Promise<void> {
  /** One process at a time, one transaction per step. */
  const inTurn = (step: CarryStep) =>
    write(async (records, tx) => {
      if (shared) await sql`select pg_advisory_xact_lock(7236270)`.execute(tx)
      return await step(records, tx)
    })

  while (await inTurn((records, tx) => carryCalls(records, tx, shared)));
  for (const name of await blobs.list(QUESTIONS)) {
    await inTurn(async (records) => {
      await carryQuestion(blobs, name, records)
      return false
    })
    await blobs.remove(name)
  }
  while (await inTurn(carryTasks));
}
