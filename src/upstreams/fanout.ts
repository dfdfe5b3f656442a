/**
 * Asks many upstreams one question and collects their answers, without waiting for the slowest
 * (docs/decisions.md#deadlines). When callers ask the same question at once, or again within a minute, each upstream is
 * asked once; an answer that came late serves the next caller.
 */
import { LRUCache } from 'lru-cache'
import { type Asked, type AskerOptions, createAsker, type QuestionAnswer } from './asker.js'
import { createLatencies } from './latencies.js'
import { slabBytes } from './rows/slab.js'

const KEEP_MS = 60_000
const RETRY_MS = 5_000 // a failed question is not asked again sooner
const MOST_QUESTIONS = 256
const KEPT_BYTES = 64 * 1024 ** 2 // of the answers to questions that nobody waits for
const AT_ONCE = 8 // questions under way at one upstream; the others wait for their turn while they have time
const MOST_QUEUED = 1_000

/** One upstream's answer to one question. */
export type UpstreamAnswer =
  | QuestionAnswer
  /**
   * `no_time`: it usually takes longer than the time left. `busy`: too many questions wait for it. `absent`: it is
   * down.
   */
  | { kind: 'not_asked'; reason: 'no_time' | 'busy' | 'absent'; typicalMs?: number }
  | { kind: 'pending'; typicalMs?: number }

type Question = {
  /** Equal keys mean the same question, under the same account and credentials. */
  key: string
  asked: readonly Asked[]
  /** Ms since the epoch. */
  deadline: number
}

/** `deadline`: of the question that waits longest for it; its turn must come before. */
type Part = { startedAt: number; deadline: number; answer: UpstreamAnswer; abort: AbortController }
/** The questions under way at an upstream, and those that wait for a turn. */
type Line = { active: number; queue: (() => void)[] }
/** `bytes`: of its answers, as far as they count; `isKept`: whether the next one who asks the same finds it. */
type Asking = { parts: Map<string, Part>; listeners: Set<() => void>; bytes: number; isKept: boolean }

/** The memory of its rows. */
const bytesOf = (answer: UpstreamAnswer) => (answer.kind === 'answered' ? slabBytes(answer.slice.rows) : 0)

/** Asks questions and keeps their answers for a while. */
export function createFanout({ call, clock }: Omit<AskerOptions, 'latencies'>) {
  let keptBytes = 0
  const askings = new LRUCache<string, Asking>({
    max: MOST_QUESTIONS,
    dispose: (asking) => {
      asking.isKept = false
      keptBytes -= asking.bytes
      for (const { abort } of asking.parts.values()) abort.abort()
    },
  })
  const latencies = createLatencies(clock)
  const askOne = createAsker({ call, clock, latencies })
  const lines = new Map<string, Line>() // by agent url; a line is dropped when it is empty

  /** Counts `bytes` more for the answers of a question. Where all take too many, the oldest that nobody waits for go. */
  function count(asking: Asking, bytes: number): void {
    if (!asking.isKept) return
    asking.bytes += bytes
    keptBytes += bytes
    if (keptBytes <= KEPT_BYTES) return
    for (const key of [...askings.rkeys()]) {
      if (askings.peek(key)?.listeners.size === 0) askings.delete(key)
      if (keptBytes <= KEPT_BYTES) return
    }
  }

  function lineAt(agentUrl: string): Line {
    const line = lines.get(agentUrl) ?? { active: 0, queue: [] }
    lines.set(agentUrl, line)
    return line
  }

  /** Runs `work` at once, or after those that wait before it. */
  async function inLine<T>(agentUrl: string, line: Line, work: () => Promise<T>): Promise<T> {
    if (line.active >= AT_ONCE) await new Promise<void>((resolve) => line.queue.push(resolve))
    else line.active += 1
    try {
      return await work()
    } finally {
      const next = line.queue.shift()
      if (next) next()
      else line.active -= 1
      if (line.active === 0) lines.delete(agentUrl)
    }
  }

  function start(asking: Asking, asked: Asked, deadline: number): void {
    const { agentUrl } = asked
    const startedAt = clock.now()
    const abort = new AbortController()
    const typicalMs = latencies.typical(agentUrl)
    const known = typicalMs === undefined ? {} : { typicalMs }
    const part: Part = { startedAt, deadline, abort, answer: { kind: 'pending', ...known } }
    const last = asking.parts.get(agentUrl)
    if (last) count(asking, -bytesOf(last.answer))
    asking.parts.set(agentUrl, part)
    if (typicalMs !== undefined && typicalMs > deadline - startedAt) {
      part.answer = { kind: 'not_asked', reason: 'no_time', typicalMs }
      return
    }
    const line = lineAt(agentUrl)
    const busy: UpstreamAnswer = { kind: 'not_asked', reason: 'busy', ...known }
    const turns = Math.floor((line.active + line.queue.length) / AT_ONCE) // rounds of others before it
    if (line.queue.length >= MOST_QUEUED || (turns + 1) * (typicalMs ?? 0) > deadline - startedAt) {
      part.answer = busy
      return
    }
    const inTurn = (): Promise<UpstreamAnswer> => {
      if (abort.signal.aborted || clock.now() >= part.deadline) return Promise.resolve(busy)
      return askOne(asked, part.deadline, abort.signal)
    }
    void inLine(agentUrl, line, inTurn)
      .catch((): UpstreamAnswer => {
        // `call` returns failures as values. An exception is a bug in reading one answer, and costs only that answer.
        return { kind: 'failed', reason: 'protocol_error', tookMs: clock.now() - startedAt }
      })
      .then((answer) => {
        part.answer = answer
        count(asking, bytesOf(answer))
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
   * Asks what has not been asked yet, and returns the question's state: `answers()` so far, by agent url, and `settled`, which
   * resolves when every upstream has answered or the time is over.
   */
  function ask({ key, asked, deadline }: Question, signal?: AbortSignal) {
    const asking = askings.get(key) ?? { parts: new Map(), listeners: new Set(), bytes: 0, isKept: true }
    askings.set(key, asking)
    for (const one of asked) {
      const part = asking.parts.get(one.agentUrl)
      if (!part || !isStillGood(part)) start(asking, one, deadline)
      else part.deadline = Math.max(part.deadline, deadline)
    }
    const answers = (): ReadonlyMap<string, UpstreamAnswer> =>
      new Map(
        asked.flatMap(({ agentUrl }) => {
          const part = asking.parts.get(agentUrl)
          return part ? [[agentUrl, part.answer]] : []
        }),
      )

    /** `until` is asked again with each answer: what is still to be done with them may end the waiting sooner. */
    async function settled(until: () => number = () => deadline): Promise<void> {
      const isPending = () => [...answers().values()].some(({ kind }) => kind === 'pending')
      let cancel = () => {}
      let check = () => {}
      await new Promise<void>((resolve) => {
        check = () => {
          cancel()
          const leftMs = until() - clock.now()
          if (leftMs <= 0 || signal?.aborted || !isPending()) resolve()
          else cancel = clock.after(leftMs, resolve)
        }
        asking.listeners.add(check)
        signal?.addEventListener('abort', check)
        check()
      })
      cancel()
      asking.listeners.delete(check)
      signal?.removeEventListener('abort', check)
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
