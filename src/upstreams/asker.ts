/**
 * Asks one upstream one question: in the form that it understands, and a second time when the first request takes much longer
 * than usual (docs/decisions.md#deadlines).
 */
import type { Clock } from '../net/clock.js'
import {
  type AgentOutcome,
  type Arguments,
  type Auth,
  namesTask,
  type UpstreamFailure,
} from './agent/agent.js'
import { isAboutRequest } from './agent/dialect.js'
import { DELIVER_TO } from './agent/tool-inputs.js'
import type { Latencies } from './latencies.js'
import { answerSlice, type FoundSlice } from './rows/found-slice.js'
import type { Upstreams } from './upstreams.js'
import type { UpstreamCall } from './walk/contact.js'

const LATE_MS = 60_000 // how long a call may outlast its question: its answer serves the next one

/** One upstream's part of a question. */
export type Asked = {
  /** Canonical. */
  agentUrl: string
  args: Arguments
  auth?: Auth
  /** `public`, or the name of the account or credential it is asked with. */
  scope: string
  /**
   * An agent without a wholesale feed may be an old one: old agents want further arguments, in shapes that differ
   * (docs/protocol.md#how-agents-differ).
   */
  briefOnly?: boolean
}

/** What came of asking it. */
export type QuestionAnswer =
  /** `slice`: its rows in its own order of relevance. */
  | { kind: 'answered'; slice: FoundSlice; tookMs: number }
  /** The upstream works on it: its task can be polled. */
  | { kind: 'submitted'; taskId: string; tookMs: number }
  | { kind: 'failed'; reason: UpstreamFailure; retryAfterMs?: number; tookMs: number }

/** Calls a task of the agent that is asked, as whom it is asked: its url, account and credential never part. */
export type CallAsked = (
  asked: Asked,
  task: string,
  args: Arguments,
  patience: Pick<UpstreamCall, 'deadline' | 'signal'>,
) => Promise<AgentOutcome>

export const asAsked =
  (ask: Upstreams['ask']): CallAsked =>
  ({ agentUrl, args: { account }, auth }, task, args, patience) =>
    ask(agentUrl, task, args, { ...patience, account, ...(auth && { auth }) })

export type AskerOptions = {
  call: CallAsked
  clock: Clock
  latencies: Latencies
}

export function createAsker({ call, clock, latencies }: AskerOptions) {
  function read(
    asked: Asked,
    { payload, rows }: Extract<AgentOutcome, { kind: 'answer' }>,
    tookMs: number,
  ): QuestionAnswer {
    const { status, task_id: taskId } = payload
    const unfinished = status === 'submitted' || status === 'working'
    if (unfinished && namesTask(taskId)) return { kind: 'submitted', taskId, tookMs }
    return { kind: 'answered', slice: answerSlice(asked, rows, clock.now()), tookMs }
  }

  /** When an old agent refuses a question, it is asked again in the form of old agents. */
  async function callInDialect(asked: Asked, patience: Parameters<CallAsked>[3]): Promise<AgentOutcome> {
    const { args, briefOnly } = asked
    let outcome = await call(asked, 'get_signals', args, patience)
    for (const shape of briefOnly ? DELIVER_TO : []) {
      if (!isAboutRequest(outcome)) break
      outcome = await call(asked, 'get_signals', { ...args, deliver_to: shape }, patience)
    }
    return outcome
  }

  async function askOnce(asked: Asked, signal: AbortSignal): Promise<QuestionAnswer> {
    const startedAt = clock.now()
    const outcome = await callInDialect(asked, { deadline: startedAt + LATE_MS, signal })
    const tookMs = clock.now() - startedAt
    if (outcome.kind === 'answer') {
      latencies.note(asked.agentUrl, tookMs)
      return read(asked, outcome, tookMs)
    }
    const [reason, retryAfterMs]: [UpstreamFailure, number | undefined] =
      outcome.kind === 'error'
        ? ['agent_error', outcome.error.retryAfterMs]
        : [outcome.reason, outcome.retryAfterMs]
    return { kind: 'failed', reason, tookMs, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  }

  /** Asks, and asks a second time when the first request takes much longer than usual: repeating a read does no harm. */
  return async function ask(asked: Asked, deadline: number, signal: AbortSignal): Promise<QuestionAnswer> {
    const first = askOnce(asked, signal)
    const after = latencies.hedgeAfter(asked.agentUrl, deadline - clock.now())
    if (after === undefined) return await first
    const second = new AbortController()
    const stop = AbortSignal.any([signal, second.signal])
    return await new Promise((resolve, reject) => {
      let cancel = () => {}
      const settle = (answer: QuestionAnswer) => {
        cancel()
        resolve(answer)
      }
      cancel = clock.after(after, () => {
        askOnce(asked, stop).then((answer) => {
          if (answer.kind !== 'failed') settle(answer) // a failed second request says nothing about the first
        }, reject)
      })
      first.then((answer) => {
        second.abort()
        settle(answer)
      }, reject)
    })
  }
}
