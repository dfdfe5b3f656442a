/**
 * Asks many upstreams one question and collects their answers, without waiting for the slowest
 * (docs/decisions.md#deadlines). When callers ask the same question at once, or again within a minute, each upstream is
 * asked once; an answer that came late serves the next caller.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../net/clock.js'
import { createRecent } from '../process/memory.js'
import type { AgentOutcome, Arguments, Auth, UpstreamFailure } from './agent/agent.js'
import { isAboutRequest } from './agent/dialect.js'
import { DELIVER_TO } from './agent/tool-inputs.js'
import type { ReadRows } from './rows/read-rows.js'
import { slabBytes } from './rows/slab.js'
import type { Slice } from './rows/slice.js'
import type { Upstreams } from './upstreams.js'
import type { UpstreamCall } from './walk/contact.js'

const KEEP_MS = 60_000
const RETRY_MS = 5_000 // a failed question is not asked again sooner
const LATE_MS = 60_000 // how long a call may outlast its question: its answer serves the next one
const MOST_QUESTIONS = 256
const KEPT_BYTES = 64 * 1024 ** 2 // of the answers to questions that nobody waits for
const AT_ONCE = 8 // questions under way at one upstream; the others wait for their turn while they have time
const MOST_QUEUED = 1_000
const MOST_ROWS = 100
const SAMPLES = 16
const ENOUGH = 4 // fewer samples prove nothing
const MEMORY_MS = 10 * 60_000 // a slow upstream is tried again after this
const MOST_UPSTREAMS = 10_000
const HEDGE_FACTOR = 3
const HEDGE_MIN_MS = 250

/** One upstream's answer to one question. */
export type UpstreamAnswer =
  /** `slice`: its rows in its own order of relevance. */
  | { kind: 'answered'; slice: Slice; tookMs: number }
  /** The upstream works on it: its task can be polled. */
  | { kind: 'submitted'; taskId: string; tookMs: number }
  | { kind: 'failed'; reason: UpstreamFailure; retryAfterMs?: number; tookMs: number }
  /**
   * `no_time`: it usually takes longer than the time left. `busy`: too many questions wait for it. `absent`: it is
   * down.
   */
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
  /**
   * An agent without a wholesale feed may be an old one: old agents want further arguments, in shapes that differ
   * (docs/protocol.md#how-agents-differ).
   */
  briefOnly?: boolean
}

type Question = {
  /** Equal keys mean the same question, under the same account and credentials. */
  key: string
  asked: readonly Asked[]
  /** Ms since the epoch. */
  deadline: number
}

type FanoutOptions = {
  call: Upstreams['call']
  clock: Clock
}

/** `deadline`: of the question that waits longest for it; its turn must come before. */
type Part = { startedAt: number; deadline: number; answer: UpstreamAnswer; abort: AbortController }
/** The questions under way at an upstream, and those that wait for a turn. */
type Line = { active: number; queue: (() => void)[] }
/** `bytes`: of its answers, as far as they count; `isKept`: whether the next one who asks the same finds it. */
type Asking = { parts: Map<string, Part>; listeners: Set<() => void>; bytes: number; isKept: boolean }

/**
 * Rows of one upstream as a slice; marked as enumerated, because an answer to a question need not hold all rows. `now`
 * in ms.
 */
export function foundSlice(
  { id, agentUrl, scope }: Pick<Asked, 'id' | 'agentUrl' | 'scope'>,
  { ends, bytes, segments, digests, dropped }: ReadRows,
  now: number,
): Slice {
  const rows = new Map<bigint, number>() // one handle stands for one signal
  for (const [row, segment] of segments.entries()) rows.set(segment, row)
  const kept = [...rows.values()]
  const start = Uint32Array.from(kept, (row) => ends[row - 1] ?? 0)
  const length = Uint32Array.from(kept, (row, at) => (ends[row] as number) - (start[at] as number))
  const chunkOf = new Uint16Array(kept.length)
  return {
    upstream: id,
    agentUrl,
    scope,
    mode: 'enumerated',
    rows: { count: kept.length, chunks: [bytes], chunkOf, start, length }, // the bytes as they were read: no copy
    digests: BigUint64Array.from(kept, (row) => digests[row] as bigint),
    dropped,
    walkedAt: now,
  }
}

/** The first rows of an answer; what is left out takes no memory. */
function firstRows(read: ReadRows): ReadRows {
  const { ends, bytes, segments, digests } = read
  if (ends.length <= MOST_ROWS) return read
  return {
    ...read,
    ends: ends.slice(0, MOST_ROWS),
    bytes: bytes.slice(0, ends[MOST_ROWS - 1]),
    segments: segments.slice(0, MOST_ROWS),
    digests: digests.slice(0, MOST_ROWS),
  }
}

/** The rows of a brief answer as a slice. */
export function answerSlice(asked: Asked, rows: ReadRows, now: number): Slice {
  return foundSlice(asked, firstRows(rows), now)
}

/** The memory of its rows. */
const bytesOf = (answer: UpstreamAnswer) => (answer.kind === 'answered' ? slabBytes(answer.slice.rows) : 0)

/**
 * How long each upstream usually takes to answer a question: this decides whether asking it, and asking it again, is useful.
 */
function createLatencies(clock: Clock) {
  const seen = createRecent<{ at: number; ms: number }[]>(MOST_UPSTREAMS)

  function note(id: string, ms: number): void {
    seen.set(id, [...(seen.get(id) ?? []).slice(1 - SAMPLES), { at: clock.now(), ms }])
  }

  /** The median of recent answers; undefined while there are too few. */
  function typical(id: string): number | undefined {
    const recent = (seen.get(id) ?? []).filter(({ at }) => clock.now() - at < MEMORY_MS)
    if (recent.length < ENOUGH) return undefined
    const sorted = recent.map(({ ms }) => ms).sort((one, other) => one - other)
    return sorted[sorted.length >> 1]
  }

  /** When to send a second request: the first is long overdue, and a usual answer still fits in the time. */
  function hedgeAfter(id: string, leftMs: number): number | undefined {
    const usual = typical(id)
    if (usual === undefined) return undefined
    const after = Math.max(HEDGE_MIN_MS, HEDGE_FACTOR * usual)
    return after + 2 * usual < leftMs ? after : undefined
  }

  return { note, typical, hedgeAfter }
}

/** Asks questions and keeps their answers for a while. */
export function createFanout({ call, clock }: FanoutOptions) {
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
  const lines = new Map<string, Line>() // by upstream; a line is dropped when it is empty

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

  function read(
    asked: Asked,
    { payload, rows }: Extract<AgentOutcome, { kind: 'answer' }>,
    tookMs: number,
  ): UpstreamAnswer {
    const { status, task_id: taskId } = payload
    const unfinished = status === 'submitted' || status === 'working'
    if (unfinished && typeof taskId === 'string') return { kind: 'submitted', taskId, tookMs }
    return { kind: 'answered', slice: answerSlice(asked, rows, clock.now()), tookMs }
  }

  /** When an old agent refuses a question, it is asked again in the form of old agents. */
  async function callInDialect(
    { id, args, auth, briefOnly }: Asked,
    options: UpstreamCall,
  ): Promise<AgentOutcome> {
    const patience = { ...options, ...(auth && { auth }) }
    let outcome = await call(id, 'get_signals', args, patience)
    for (const shape of briefOnly ? DELIVER_TO : []) {
      if (!isAboutRequest(outcome)) break
      outcome = await call(id, 'get_signals', { ...args, deliver_to: shape }, patience)
    }
    return outcome
  }

  async function askOnce(asked: Asked, signal: AbortSignal): Promise<UpstreamAnswer> {
    const startedAt = clock.now()
    const outcome = await callInDialect(asked, { deadline: startedAt + LATE_MS, signal })
    const tookMs = clock.now() - startedAt
    if (outcome.kind === 'answer') {
      latencies.note(asked.id, tookMs)
      return read(asked, outcome, tookMs)
    }
    const [reason, retryAfterMs]: [UpstreamFailure, number | undefined] =
      outcome.kind === 'error'
        ? ['agent_error', outcome.error.retryAfterMs]
        : [outcome.reason, outcome.retryAfterMs]
    return { kind: 'failed', reason, tookMs, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  }

  /**
   * Asks, and asks a second time when the first request takes much longer than usual: repeating a read does no harm.
   */
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
          if (answer.kind !== 'failed') settle(answer) // a failed second request says nothing about the first
        }, reject)
      })
      first.then((answer) => {
        second.abort()
        settle(answer)
      }, reject)
    })
  }

  function lineAt(id: string): Line {
    const line = lines.get(id) ?? { active: 0, queue: [] }
    lines.set(id, line)
    return line
  }

  /** Runs `work` at once, or after those that wait before it. */
  async function inLine<T>(id: string, line: Line, work: () => Promise<T>): Promise<T> {
    if (line.active >= AT_ONCE) await new Promise<void>((resolve) => line.queue.push(resolve))
    else line.active += 1
    try {
      return await work()
    } finally {
      const next = line.queue.shift()
      if (next) next()
      else line.active -= 1
      if (line.active === 0) lines.delete(id)
    }
  }

  function start(asking: Asking, asked: Asked, deadline: number): void {
    const { id } = asked
    const startedAt = clock.now()
    const abort = new AbortController()
    const typicalMs = latencies.typical(id)
    const known = typicalMs === undefined ? {} : { typicalMs }
    const part: Part = { startedAt, deadline, abort, answer: { kind: 'pending', ...known } }
    const last = asking.parts.get(id)
    if (last) count(asking, -bytesOf(last.answer))
    asking.parts.set(id, part)
    if (typicalMs !== undefined && typicalMs > deadline - startedAt) {
      part.answer = { kind: 'not_asked', reason: 'no_time', typicalMs }
      return
    }
    const line = lineAt(id)
    const busy: UpstreamAnswer = { kind: 'not_asked', reason: 'busy', ...known }
    const turns = Math.floor((line.active + line.queue.length) / AT_ONCE) // rounds of others before it
    if (line.queue.length >= MOST_QUEUED || (turns + 1) * (typicalMs ?? 0) > deadline - startedAt) {
      part.answer = busy
      return
    }
    const inTurn = () => {
      if (abort.signal.aborted || clock.now() >= part.deadline) return Promise.resolve(busy)
      return askPatiently(asked, part.deadline, abort.signal)
    }
    void inLine(id, line, inTurn)
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
   * Asks what has not been asked yet, and returns the question's state: `answers()` so far, and `settled`, which
   * resolves when every upstream has answered or the time is over.
   */
  function ask({ key, asked, deadline }: Question, signal?: AbortSignal) {
    const asking = askings.get(key) ?? { parts: new Map(), listeners: new Set(), bytes: 0, isKept: true }
    askings.set(key, asking)
    for (const one of asked) {
      const part = asking.parts.get(one.id)
      if (!part || !isStillGood(part)) start(asking, one, deadline)
      else part.deadline = Math.max(part.deadline, deadline)
    }
    const answers = (): ReadonlyMap<string, UpstreamAnswer> =>
      new Map(
        asked.flatMap(({ id }) => {
          const part = asking.parts.get(id)
          return part ? [[id, part.answer]] : []
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
