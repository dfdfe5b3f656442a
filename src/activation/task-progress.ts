/**
 * Follows the task of an upstream that answered `submitted`: when its caller polls, and now and then in the background,
 * so that the ledger stays correct (specification, "get_task_status").
 */
import type { Destination } from '../adcp/signal.js'
import type { Clock } from '../net/clock.js'
import { createRecent } from '../process/memory.js'
import { type Call, readCall } from '../store/call.js'
import type { Held, NewJob } from '../store/jobs.js'
import { addDecided } from '../store/promised-work.js'
import type { Action, Settlement } from '../store/records/ledger.js'
import { isFinal, type StoredTask, type TaskProgress } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import { pauseAfter, type Worker } from '../store/worker.js'
import { type CallKind, type CallUpstream, createStateReading, upstreamsUntil } from './delivery.js'
import { switchedOnLate, unwantedNow, visibleDeployments } from './holders.js'
import { readTaskAnswer, type TaskWord, untold } from './task-answer.js'
import { type Activated, readTold, toldFields } from './upstream-answer.js'

const POLL_EVERY_MS = 1_000 // a caller that polls faster gets the last known state
const FIRST_UNASKED_MS = 5_000
const POLL_MS = 30_000 // for one background question
const GIVE_UP_MS = 7 * 24 * 60 * 60 * 1_000 // by then the upstream has forgotten the task
const DOUBT_MS = 10 * 60 * 1_000 // an upstream that restarts, or lost its database, refuses questions for a while
const MOST_ASKED = 10_000

/** The data of such a job; jobs of an earlier release do not say in whose name the upstream was called. */
type UpstreamTask = {
  /**
   * Whom to ask about the task; empty when it named none. An earlier release would ask about no task, and believe the answer: so
   * it finds nobody to ask, and leaves the job to this one.
   */
  agentUrl: string
  /** Absent when the upstream named no task. */
  upstreamTaskId?: string
  callId?: string
  seenAs?: Call['seenAs']
  isCredentialed?: Call['isCredentialed']
  /** Since when its answers do not say how the task stands, ms since the epoch. */
  doubtsSince?: number
}

/** `isUnknown`: the task ends here, but whether the upstream did anything is not known. */
type Ending = TaskProgress & { isUnknown?: true }

/** What an answer says of a task; `doubtful`: how it ends if the upstream goes on to answer so. */
type Heard = { kind: 'progress'; progress: Ending } | { kind: 'doubtful'; progress: Ending }

type TaskProgressOptions = {
  store: Store
  clock: Clock
  call: CallUpstream
  /** The current id of an agent (canonical url). */
  upstreamAt: (agentUrl: string) => string
  /** What the calls mean from which such tasks come. */
  kind: CallKind
  onChanged: (agentUrl: string, caller: string) => void
}

/** A task of which its upstream tells nothing any more. */
const lost = (message: string): Ending => ({ status: 'failed', isUnknown: true, error: untold(message) })
const FORGOTTEN = lost('The upstream no longer knows this task')
const NOT_ASKED = lost('This agent no longer asks the upstream for this task') // an operator ended the asking

/** The job that asks about the task with which an upstream answered a call; it is done for the same request, under the same key. */
export function upstreamTaskJob({
  id,
  caller,
  key,
  agentUrl,
  seenAs,
  isCredentialed,
  taskId,
  upstreamTaskId,
}: Call & { taskId: string; upstreamTaskId?: string | undefined }): NewJob {
  const asked = upstreamTaskId === undefined ? { agentUrl: '' } : { agentUrl, upstreamTaskId }
  const data: UpstreamTask = { ...asked, callId: id, seenAs, ...(isCredentialed && { isCredentialed }) }
  return { id: taskId, kind: 'upstream_task', lane: agentUrl, caller, key, data, afterMs: FIRST_UNASKED_MS }
}

/** Some tasks complete without a result: the next reading of the feed shows what is live. */
function completed({ request }: StoredTask, payload: Readonly<Record<string, unknown>>): TaskProgress {
  const { destinations } = request as { destinations: readonly Destination[] }
  return { status: 'completed', result: toldFields(readTold(payload, destinations)) }
}

const says = (progress: Ending): Heard => ({ kind: 'progress', progress })

/** What an upstream's answer says of the task; undefined when it says nothing of it. */
function heardIn(task: StoredTask, word: TaskWord | undefined): Heard | undefined {
  switch (word?.kind) {
    case 'goes_on':
      return says({ status: word.status })
    case 'completed':
      return says(completed(task, word.payload))
    case 'ended':
      return says({ status: word.status, error: word.error })
    case 'forgotten':
      return says(FORGOTTEN)
    case 'doubtful':
      return { kind: 'doubtful', progress: { status: 'failed', error: word.error, isUnknown: true } }
    default:
      return undefined
  }
}

/** `call`: the upstream's answer with the task, while it is known. */
function settlement(
  { status, result, error, isUnknown }: Ending,
  call: Call | undefined,
): Settlement | undefined {
  if (status === 'completed') {
    const { deployments } = result as Pick<Activated, 'deployments'>
    const left = (call?.kept ?? []).map((one) => ({ ...one, is_live: true }))
    return { outcome: 'completed', deployments: visibleDeployments([...deployments, ...left], []) }
  }
  if (!isFinal(status)) return undefined
  return { outcome: isUnknown ? 'unknown' : 'failed', error }
}

/** Gives a function of the worker that holds the jobs. */
export function createTaskProgress(options: TaskProgressOptions) {
  const { store, clock, call, upstreamAt, kind, onChanged } = options
  const readState = createStateReading(call)
  const askedAt = createRecent<number>(MOST_ASKED) // by task

  /** Stores the state of the task; ends the job if the task has ended. */
  async function record(held: Held, task: StoredTask, progress: Ending): Promise<void> {
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
      await ledger.settleAll(new Map([[callId, settled]]))
      if (!call) return
      const isOn = settled.outcome === 'completed' && call.args.action !== 'deactivate'
      await addDecided(repositories, await (isOn ? switchedOnLate : unwantedNow)(repositories, call))
    })
  }

  /** What the upstream says of the task; of one that it did not name, what its rows say of the signal. */
  async function askProgress(held: Held, task: StoredTask, deadline: number): Promise<Heard | undefined> {
    const { agentUrl, upstreamTaskId, callId = '', seenAs, isCredentialed } = held.data as UpstreamTask
    if (upstreamTaskId !== undefined) {
      const args = { task_id: upstreamTaskId, include_result: true }
      const context = {
        deadline,
        caller: held.caller,
        ...(seenAs && { seenAs }),
        ...(isCredentialed && { isCredentialed }),
      }
      const outcome = await call(agentUrl, 'get_task_status', args, context)
      const { action, destinations } = task.request as {
        action: Action
        destinations: readonly Destination[]
      }
      const asked = {
        upstream: upstreamAt(agentUrl),
        taskId: upstreamTaskId,
        wish: { wantsLive: action === 'activate', destinations },
      }
      return heardIn(task, readTaskAnswer(outcome, asked))
    }
    const job = await store.jobs.get(callId)
    const done = job && (await readState(kind, readCall(job), deadline))
    return done?.kind === 'done' ? says(completed(task, done.payload)) : undefined
  }

  /**
   * How the task stands, as far as what was heard is believed. An answer that does not say it is believed when nothing else is heard
   * for a while. `data`: what the job is to know of that, if it changes.
   */
  function believed(held: Held, heard: Heard | undefined): { progress?: Ending; data?: UpstreamTask } {
    const { doubtsSince, ...known } = held.data as UpstreamTask
    if (!heard) return {}
    const { kind, progress } = heard
    if (kind === 'progress') return { progress, ...(doubtsSince !== undefined && { data: known }) }
    if (doubtsSince === undefined) return { data: { ...known, doubtsSince: clock.now() } }
    return clock.now() - doubtsSince > DOUBT_MS ? { progress } : {}
  }

  /** Asks the upstream about a task whose job is held, then releases the job. */
  async function advanceHeld(held: Held, deadline: number): Promise<void> {
    const task = await store.tasks.get(held.caller, held.id)
    if (!task || isFinal(task.status)) return void (await store.jobs.end(held, 'abandoned'))
    if (clock.now() - held.createdAt > GIVE_UP_MS) return await record(held, task, FORGOTTEN)
    askedAt.set(held.id, clock.now())
    const { progress, data } = believed(held, await askProgress(held, task, deadline))
    // A task of ours begins as submitted: an upstream that says so again says nothing new, or takes back what it said since.
    const isNews = progress && progress.status !== task.status && progress.status !== 'submitted'
    if (isNews) await record(held, task, progress)
    if (progress && isFinal(progress.status)) onChanged(held.lane, held.caller)
    else await store.jobs.release(held, pauseAfter(held.attempts), data)
  }

  return (worker: Worker) => ({
    run: (held: Held) => advanceHeld(held, clock.now() + POLL_MS),
    /** The upstream is not asked again: the task ends, and what came of it is unknown. */
    async giveUp(held: Held): Promise<void> {
      const task = await store.tasks.get(held.caller, held.id)
      if (task && !isFinal(task.status)) await record(held, task, NOT_ASKED)
      else await store.jobs.end(held, 'abandoned')
    },
    /** Asks the upstream, unless it was asked moments ago. On failure a later question will find out. */
    async advance(task: StoredTask, deadline: number): Promise<void> {
      if (isFinal(task.status) || task.type !== 'activate_signal') return
      if (clock.now() - (askedAt.get(task.id) ?? task.createdAt) < POLL_EVERY_MS) return
      const held = await worker.claim(task.id, true)
      if (held) await worker.during(held, () => advanceHeld(held, upstreamsUntil(deadline, clock.now())))
    },
  })
}
