/**
 * How a task of an upstream that answered `submitted` goes on: asked for when its caller polls, and now and then
 * when nobody does, so that the ledger tells the truth (specification, "get_task_status").
 */
import { LRUCache } from 'lru-cache'
import type { Destination } from '../adcp/signal.js'
import type { Clock } from '../net/clock.js'
import { type Call, readCall } from '../store/jobs/calls.js'
import type { Held, NewJob } from '../store/jobs/jobs.js'
import { pauseAfter, type Worker } from '../store/jobs/worker.js'
import type { Settlement } from '../store/records/ledger.js'
import { isFinal, type StoredTask, type TaskProgress, type TaskStatus } from '../store/records/tasks.js'
import { addDecided } from '../store/steps.js'
import type { Store } from '../store/store.js'
import type { CallOutcome } from '../upstreams/upstreams.js'
import { type CallUpstream, upstreamsUntil } from './delivery.js'
import { visibleDeployments } from './destination.js'
import { unwantedNow } from './left-on.js'
import { type Activated, readStatus, readTold, toldFields } from './told.js'
import { understand } from './upstream-answer.js'

const POLL_EVERY_MS = 1_000 // a caller that polls faster is answered from what is known
const FIRST_UNASKED_MS = 5_000
const POLL_MS = 30_000 // for one question that nobody waits for
const GIVE_UP_MS = 7 * 24 * 60 * 60 * 1_000 // by then the upstream has forgotten the task
const MOST_ASKED = 10_000

/** Codes that an agent may answer to get_task_status itself, whatever became of the task. */
const OF_THE_QUESTION: ReadonlySet<string> = new Set([
  'TOOL_ERROR',
  'UNKNOWN',
  'INVALID_REQUEST',
  'UNSUPPORTED_FEATURE',
])

/** What a job of this kind knows. */
type UpstreamTask = { agentUrl: string; upstreamTaskId: string; callId?: string }

type TaskProgressOptions = {
  store: Store
  clock: Clock
  call: CallUpstream
  /** What an agent (canonical url) is called by now. */
  upstreamAt: (agentUrl: string) => string
  onChanged: (upstream: string, caller: string) => void
}

const FORGOTTEN: TaskProgress = {
  status: 'failed',
  error: {
    code: 'REFERENCE_NOT_FOUND',
    message: 'The upstream no longer knows this task; what came of it is unknown.',
  },
}

/** The job that asks about the task of an upstream that answered a call so. */
export function upstreamTaskJob({
  id,
  caller,
  agentUrl,
  taskId,
  upstreamTaskId,
}: Call & { taskId: string; upstreamTaskId: string }): NewJob {
  const data: UpstreamTask = { agentUrl, upstreamTaskId, callId: id }
  return { id: taskId, kind: 'upstream_task', lane: agentUrl, caller, data, afterMs: FIRST_UNASKED_MS }
}

/** Statuses of a task that ended without a result. */
const ENDED: ReadonlySet<string> = new Set<TaskStatus>(['failed', 'canceled', 'rejected'])
const GOES_ON: ReadonlySet<string> = new Set<TaskStatus>([
  'submitted',
  'working',
  'input-required',
  'auth-required',
])

function withoutResult(upstream: string, status: string, code: string): TaskProgress {
  const refused = understand(
    { kind: 'error', error: { code, message: '' } },
    { upstream, errorsRefuse: false, mayHaveActed: false },
  )
  const error =
    refused.kind === 'refused'
      ? refused.error
      : {
          code: 'SERVICE_UNAVAILABLE',
          message: 'The upstream could not carry it out.',
          details: { upstream },
        }
  return { status: status as TaskStatus, error }
}

/** What the upstream says of the task; undefined when it does not say. */
function readProgress(task: StoredTask, upstream: string, outcome: CallOutcome): TaskProgress | undefined {
  if (outcome.kind === 'failed') return undefined
  if (outcome.kind === 'error') {
    const { code, status } = outcome.error
    if (status !== undefined && GOES_ON.has(status)) return { status: status as TaskStatus }
    if (status !== undefined && ENDED.has(status)) return withoutResult(upstream, status, code)
    if (code === 'REFERENCE_NOT_FOUND') return FORGOTTEN
    // A task that failed may come as its error alone; one about this question, or about us, says nothing of the task.
    const understood = understand(outcome, { upstream, errorsRefuse: false, mayHaveActed: true })
    const isOfTask = understood.kind === 'refused' && understood.error.code !== 'SERVICE_UNAVAILABLE'
    return isOfTask && !OF_THE_QUESTION.has(code) ? { status: 'failed', error: understood.error } : undefined
  }
  const status = readStatus(outcome.payload) ?? 'completed'
  if (GOES_ON.has(status)) return { status: status as TaskStatus }
  if (ENDED.has(status)) return withoutResult(upstream, status, 'UNSPECIFIED')
  if (status !== 'completed') return undefined
  const { destinations } = task.request as { destinations: readonly Destination[] }
  // Some complete without a result: the next reading of the feed shows what is live.
  return { status, result: toldFields(readTold(outcome.payload, destinations)) }
}

/** `call`: what the upstream answered with the task, while it is known. */
function settlement({ status, result, error }: TaskProgress, call: Call | undefined): Settlement | undefined {
  if (status === 'completed') {
    const { deployments } = result as Pick<Activated, 'deployments'>
    const left = (call?.kept ?? []).map((one) => ({ ...one, is_live: true }))
    return { outcome: 'completed', deployments: visibleDeployments([...deployments, ...left], []) }
  }
  if (!isFinal(status)) return undefined
  return { outcome: error === FORGOTTEN.error ? 'unknown' : 'failed', error }
}

export function createTaskProgress({ store, clock, call, upstreamAt, onChanged }: TaskProgressOptions) {
  const asked = new LRUCache<string, number>({ max: MOST_ASKED }) // when, by task

  /** Writes down how the task stands, and ends the job with it. */
  async function record(held: Held, task: StoredTask, progress: TaskProgress): Promise<void> {
    const { callId } = held.data as UpstreamTask
    const ends = isFinal(progress.status)
    const job = ends && callId !== undefined ? await store.jobs.get(callId) : undefined
    const call = job && readCall(job)
    await store.write(async (repositories) => {
      const { jobs, ledger } = repositories
      await jobs.inTurn(job?.target === undefined ? [] : [job.target])
      if (ends && !(await jobs.end(held, progress.status))) return
      if (!(await repositories.tasks.progress(task.id, progress))) return
      const settled = callId === undefined ? undefined : settlement(progress, call)
      if (!settled || callId === undefined) return
      await ledger.settle(callId, settled)
      if (call) await addDecided(repositories, await unwantedNow(repositories, call))
    })
  }

  /** Asks the upstream about a task whose job is held, and lets go of it. */
  async function advanceHeld(held: Held, deadline: number): Promise<void> {
    const { agentUrl, upstreamTaskId } = held.data as UpstreamTask
    const task = await store.tasks.get(held.caller, held.id)
    if (!task || isFinal(task.status)) return void (await store.jobs.end(held, 'abandoned'))
    if (clock.now() - held.createdAt > GIVE_UP_MS) return await record(held, task, FORGOTTEN)
    asked.set(held.id, clock.now())
    const upstream = upstreamAt(agentUrl)
    const args = { task_id: upstreamTaskId, include_result: true }
    const outcome = await call(upstream, 'get_task_status', args, { deadline, caller: held.caller })
    const progress = readProgress(task, upstream, outcome)
    if (progress && progress.status !== task.status) await record(held, task, progress)
    if (progress && isFinal(progress.status)) onChanged(upstream, held.caller)
    else await store.jobs.release(held, pauseAfter(held.attempts))
  }

  return (worker: Worker) => ({
    run: (held: Held) => advanceHeld(held, clock.now() + POLL_MS),
    /** Asks the upstream, unless someone did moments ago. What cannot be learnt now is learnt another time. */
    async advance(task: StoredTask, deadline: number): Promise<void> {
      if (isFinal(task.status) || task.type !== 'activate_signal') return
      if (clock.now() - (asked.get(task.id) ?? task.createdAt) < POLL_EVERY_MS) return
      const held = await worker.claim(task.id, true)
      if (held) await worker.during(held, () => advanceHeld(held, upstreamsUntil(deadline, clock.now())))
    },
  })
}
