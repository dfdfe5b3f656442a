/**
 * Asks many upstreams one question and collects what comes, without ever waiting for the slowest (DESIGN 5.7). The same
 * question asked at once, or again within a minute, is asked upstream once; what came late serves whoever asks next.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../net/clock.js'
import type { Arguments, Auth, Payload } from './agent.js'
import { createCollector } from './collect.js'
import { createLatencies } from './latencies.js'
import type { Slice } from './slice.js'
import type { UpstreamFailure } from './status.js'
import type { Upstreams } from './upstreams.js'

const KEEP_MS = 60_000
const RETRY_MS = 5_000 // a failure is asked again no sooner
const LATE_MS = 60_000 // a call outlives its question by no more: its answer warms the next one
const MOST_QUESTIONS = 256
const MOST_WAITING = 8 // questions under way at one upstream; a hung one collects no more
const MOST_ROWS = 100

/** What one upstream said to one question. */
export type UpstreamAnswer =
  /** `slice`: its rows in its own order of relevance. */
  | { kind: 'answered'; slice: Slice; tookMs: number }
  /** It works on it; its task can be polled. */
  | { kind: 'submitted'; taskId: string; tookMs: number }
  | { kind: 'failed'; reason: UpstreamFailure; retryAfterMs?: number; tookMs: number }
  /** `no_time`: it is known to take longer than is left. `busy`: too many questions wait there. `absent`: it is down. */
  | { kind: 'not_asked'; reason: 'no_time' | 'busy' | 'absent'; typicalMs?: number }
  | { kind: 'pending'; typicalMs?: number }

/** One upstream's part of a question. */
export type Asked = {
  id: string
  /** Canonical. */
  agentUrl: string
  args: Arguments
  auth?: Auth
  /** `public`, or the name of the account or credential it is asked with. */
  scope: string
}

export type Question = {
  /** Equal keys are the same question, under the same account and credentials. */
  key: string
  asked: readonly Asked[]
  /** Ms since the epoch. */
  deadline: number
}

export type FanoutOptions = { call: Upstreams['call']; clock: Clock }

type Part = { startedAt: number; answer: UpstreamAnswer; abort: AbortController }
type Asking = { parts: Map<string, Part>; listeners: Set<() => void> }

/** The rows of a brief answer as a slice; enumerated, because nobody promised that they are all. */
export async function answerSlice(asked: Asked, signals: unknown, now: number): Promise<Slice> {
  const rows = Array.isArray(signals) ? signals.slice(0, MOST_ROWS) : []
  const collector = createCollector()
  await collector.take(rows.map((row) => Buffer.from(JSON.stringify(row))))
  const { rows: slab, digests, dropped } = collector.finish()
  const { id: upstream, agentUrl, scope } = asked
  return { upstream, agentUrl, scope, mode: 'enumerated', rows: slab, digests, dropped, walkedAt: now }
}

export function createFanout({ call, clock }: FanoutOptions) {
  const askings = new LRUCache<string, Asking>({
    max: MOST_QUESTIONS,
    dispose: ({ parts }) => {
      for (const { abort } of parts.values()) abort.abort()
    },
  })
  const latencies = createLatencies(clock)
  const waiting = new Map<string, number>()

  async function read(asked: Asked, payload: Payload, tookMs: number): Promise<UpstreamAnswer> {
    const { status, task_id: taskId, signals } = payload
    const unfinished = status === 'submitted' || status === 'working'
    if (unfinished && typeof taskId === 'string') return { kind: 'submitted', taskId, tookMs }
    return { kind: 'answered', slice: await answerSlice(asked, signals, clock.now()), tookMs }
  }

  async function askOnce(asked: Asked, signal: AbortSignal): Promise<UpstreamAnswer> {
    const startedAt = clock.now()
    const { args, auth } = asked
    const outcome = await call(asked.id, 'get_signals', args, {
      deadline: startedAt + LATE_MS,
      signal,
      ...(auth && { auth }),
    })
    const tookMs = clock.now() - startedAt
    if (outcome.kind === 'answer') {
      latencies.note(asked.id, tookMs)
      return await read(asked, outcome.payload, tookMs)
    }
    const [reason, retryAfterMs]: [UpstreamFailure, number | undefined] =
      outcome.kind === 'error'
        ? ['agent_error', outcome.error.retryAfterMs]
        : [outcome.reason, outcome.retryAfterMs]
    return { kind: 'failed', reason, tookMs, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  }

  /** Asks; and once more when the first request takes much longer than usual: reading twice harms nobody. */
  async function askPatiently(asked: Asked, deadline: number, signal: AbortSignal): Promise<UpstreamAnswer> {
    const first = askOnce(asked, signal)
    const after = latencies.hedgeAfter(asked.id, deadline - clock.now())
    if (after === undefined) return await first
    const second = new AbortController()
    const stop = AbortSignal.any([signal, second.signal])
    return await new Promise((resolve, reject) => {
      let cancel = () => {}
      const settle = (answer: UpstreamAnswer) => {
        cancel()
        resolve(answer)
      }
      cancel = clock.after(after, () => {
        askOnce(asked, stop).then((answer) => {
          if (answer.kind !== 'failed') settle(answer) // a failed second says nothing about the first
        }, reject)
      })
      first.then((answer) => {
        second.abort()
        settle(answer)
      }, reject)
    })
  }

  function start(asking: Asking, asked: Asked, deadline: number): void {
    const { id } = asked
    const startedAt = clock.now()
    const abort = new AbortController()
    const typicalMs = latencies.typical(id)
    const known = typicalMs === undefined ? {} : { typicalMs }
    const part: Part = { startedAt, abort, answer: { kind: 'pending', ...known } }
    asking.parts.set(id, part)
    if (typicalMs !== undefined && typicalMs > deadline - startedAt) {
      part.answer = { kind: 'not_asked', reason: 'no_time', typicalMs }
      return
    }
    const there = waiting.get(id) ?? 0
    if (there >= MOST_WAITING) {
      part.answer = { kind: 'not_asked', reason: 'busy', ...known }
      return
    }
    waiting.set(id, there + 1)
    void askPatiently(asked, deadline, abort.signal)
      .catch((): UpstreamAnswer => {
        // `call` gives failures as values: what is thrown is a bug in reading one answer, and costs only that answer.
        return { kind: 'failed', reason: 'protocol_error', tookMs: clock.now() - startedAt }
      })
      .then((answer) => {
        part.answer = answer
        waiting.set(id, (waiting.get(id) ?? 1) - 1)
        for (const listener of asking.listeners) listener()
      })
  }

  function isStillGood({ startedAt, answer }: Part): boolean {
    const age = clock.now() - startedAt
    if (answer.kind === 'pending') return true
    if (answer.kind === 'not_asked') return false
    return age < (answer.kind === 'failed' ? RETRY_MS : KEEP_MS)
  }

  /**
   * Asks what was not asked already, and gives the question's state: `answers()` now, `settled` once every upstream has
   * answered or the time is over, whichever comes first.
   */
  function ask({ key, asked, deadline }: Question, signal?: AbortSignal) {
    const asking = askings.get(key) ?? { parts: new Map<string, Part>(), listeners: new Set<() => void>() }
    askings.set(key, asking)
    for (const one of asked) {
      const part = asking.parts.get(one.id)
      if (!part || !isStillGood(part)) start(asking, one, deadline)
    }
    const answers = (): ReadonlyMap<string, UpstreamAnswer> =>
      new Map(
        asked.flatMap(({ id }) => {
          const part = asking.parts.get(id)
          return part ? [[id, part.answer]] : []
        }),
      )

    function settled(until = deadline): Promise<void> {
      return new Promise((resolve) => {
        const isDone = () => [...answers().values()].every(({ kind }) => kind !== 'pending')
        const end = () => {
          cancel()
          asking.listeners.delete(check)
          signal?.removeEventListener('abort', end)
          resolve()
        }
        const check = () => {
          if (isDone()) end()
        }
        const cancel = clock.after(Math.max(0, until - clock.now()), end)
        asking.listeners.add(check)
        signal?.addEventListener('abort', end, { once: true })
        if (signal?.aborted) end()
        check()
      })
    }

    return { answers, settled }
  }

  return {
    ask,
    /** Gives up what is under way. */
    close: () => askings.clear(),
  }
}

export type Fanout = ReturnType<typeof createFanout>
