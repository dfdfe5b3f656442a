/** Waits for upstreams that answered `submitted`: asks each about its task, with growing pauses. */
import { type Clock, pause } from '../net/clock.js'
import type { AgentError } from '../upstreams/agent/agent.js'
import { isTransient } from '../upstreams/agent/dialect/dialect.js'
import { type Asked, answerSlice } from '../upstreams/fanout.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'

const FIRST_MS = 500
const LONGEST_MS = 15_000
const CALL_MS = 30_000

type UpstreamTask = { asked: Asked; taskId: string }
type UpstreamTasksOptions = { call: Upstreams['call']; clock: Clock }

const GOES_ON: ReadonlySet<unknown> = new Set(['submitted', 'working', 'input-required', 'auth-required'])

/** An error that will pass, or a task that waits for a person, has not ended. */
function hasEnded(error: AgentError): boolean {
  if (error.status !== undefined) return !GOES_ON.has(error.status)
  return error.recovery !== 'transient' && !isTransient(error)
}

/** `call`: sends a task to an upstream. */
export function createUpstreamTasks({ call, clock }: UpstreamTasksOptions) {
  /** The rows once the task is done; undefined when it failed, or when `until` (ms since the epoch) comes first. */
  async function wait(
    { asked, taskId }: UpstreamTask,
    until: number,
    signal: AbortSignal,
  ): Promise<Slice | undefined> {
    const args = { task_id: taskId, include_result: true }
    for (let between = FIRST_MS; clock.now() < until && !signal.aborted; ) {
      const outcome = await call(asked.id, 'get_task_status', args, {
        deadline: Math.min(until, clock.now() + CALL_MS),
        signal,
        ...(asked.auth && { auth: asked.auth }),
      })
      if (outcome.kind === 'answer') {
        const { status } = outcome.payload
        if (status === 'completed') return answerSlice(asked, outcome.rows, clock.now())
        if (!GOES_ON.has(status)) return undefined
      } else if (outcome.kind === 'error' && hasEnded(outcome.error)) return undefined
      await pause(clock, Math.min(between, until - clock.now()), signal)
      between = Math.min(LONGEST_MS, between * 2)
    }
    return undefined
  }

  return { wait }
}
