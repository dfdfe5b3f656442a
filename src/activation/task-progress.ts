/**
 * How a task of an upstream that answered `submitted` goes on: asked for when its caller polls, and now and then
 * when nobody does, so that the ledger tells the truth (specification, "get_task_status").
 */
import pLimit from 'p-limit'
import type { Destination } from '../adcp/signal.js'
import type { Clock } from '../net/clock.js'
import type { Settlement } from '../store/ledger.js'
import type { Store } from '../store/store.js'
import { isFinal, type StoredTask, type TaskProgress } from '../store/tasks.js'
import type { CallOutcome } from '../upstreams/upstreams.js'
import type { Activated } from './activation-calls.js'
import type { AddressOf } from './address.js'
import type { UpstreamCall } from './delivery.js'
import { notLiveYet, readDeployments, visibleDeployments } from './destination.js'
import { understand } from './upstream-answer.js'

const POLL_EVERY_MS = 1_000 // a caller that polls faster is answered from what is known
const POLL_UNASKED_MS = 30_000
const GIVE_UP_MS = 7 * 24 * 60 * 60 * 1_000 // by then the upstream has forgotten the task
const POLLS_AT_ONCE = 50
const POLLS_IN_PARALLEL = 4

/** Codes that an agent may answer to get_task_status itself, whatever became of the task. */
const OF_THE_QUESTION: ReadonlySet<string> = new Set([
  'TOOL_ERROR',
  'UNKNOWN',
  'INVALID_REQUEST',
  'UNSUPPORTED_FEATURE',
])

export type TaskProgressOptions = {
  store: Store
  clock: Clock
  call: UpstreamCall
  addressOf: AddressOf
  onChanged: (upstream: string, caller: string) => void
}

const FORGOTTEN: TaskProgress = {
  status: 'failed',
  error: {
    code: 'REFERENCE_NOT_FOUND',
    message: 'The upstream no longer knows this task; what came of it is unknown.',
  },
}

/** What the upstream says of the task; undefined when it does not say. */
function readProgress(task: StoredTask, upstream: string, outcome: CallOutcome): TaskProgress | undefined {
  const understood = understand(outcome, { upstream, errorsRefuse: false, mayHaveActed: true })
  if (outcome.kind === 'error') {
    const { code } = outcome.error
    if (code === 'REFERENCE_NOT_FOUND') return FORGOTTEN
    // A task that failed comes as its error; one about this question, or about us, says nothing of the task.
    const isOfTask = understood.kind === 'refused' && understood.error.code !== 'SERVICE_UNAVAILABLE'
    return isOfTask && !OF_THE_QUESTION.has(code) ? { status: 'failed', error: understood.error } : undefined
  }
  if (outcome.kind === 'failed') return undefined
  const { status = 'completed', result } = outcome.payload
  if (status === 'submitted' || status === 'working') return { status }
  if (status !== 'completed') return undefined
  const told = readDeployments((result as Record<string, unknown> | undefined)?.deployments)
  const { destinations } = task.request as { destinations: readonly Destination[] }
  // Some complete without a result: the next reading of the feed shows what is live.
  return { status, result: { deployments: told.length > 0 ? told : notLiveYet(destinations) } }
}

function settlement({ status, result, error }: TaskProgress): Settlement | undefined {
  if (status === 'completed') {
    const { deployments } = result as Pick<Activated, 'deployments'>
    return { outcome: 'completed', deployments: visibleDeployments(deployments, []) }
  }
  if (!isFinal(status)) return undefined
  return { outcome: error === FORGOTTEN.error ? 'unknown' : 'failed', error }
}

export function createTaskProgress({ store, clock, call, addressOf, onChanged }: TaskProgressOptions) {
  async function record(task: StoredTask, progress: TaskProgress): Promise<void> {
    const changed = await store.write(async (repositories) => {
      if (!(await repositories.tasks.progress(task.id, progress))) return false
      const settled = task.callId === undefined ? undefined : settlement(progress)
      if (settled && task.callId !== undefined) await repositories.ledger.settle(task.callId, settled)
      return settled !== undefined
    })
    if (changed && task.upstream !== undefined) onChanged(task.upstream, task.caller)
  }

  /** Asks the upstream, unless someone did moments ago. What cannot be learnt now is learnt another time. */
  async function advance(task: StoredTask, deadline: number): Promise<void> {
    const { upstreamTaskId, caller } = task
    if (isFinal(task.status) || task.upstream === undefined || upstreamTaskId === undefined) return
    if (clock.now() - task.createdAt > GIVE_UP_MS) return await record(task, FORGOTTEN)
    if (!(await store.tasks.claimPoll(task.id, clock.now() - POLL_EVERY_MS))) return
    const args = { task_id: upstreamTaskId, include_result: true }
    const upstream = await addressOf(task.upstream, task.callId)
    const outcome = await call(upstream, 'get_task_status', args, { deadline, caller })
    const progress = readProgress(task, upstream, outcome)
    if (progress && progress.status !== task.status) await record({ ...task, upstream }, progress)
  }

  /** Asks about tasks that nobody asked about for a while; each gets `budgetMs`. */
  async function advanceUnasked(budgetMs: number): Promise<void> {
    const limit = pLimit(POLLS_IN_PARALLEL)
    const tasks = await store.tasks.unpolled(clock.now() - POLL_UNASKED_MS, POLLS_AT_ONCE)
    await Promise.all(tasks.map((task) => limit(() => advance(task, clock.now() + budgetMs))))
  }

  return { advance, advanceUnasked }
}

export type TaskProgressing = ReturnType<typeof createTaskProgress>
