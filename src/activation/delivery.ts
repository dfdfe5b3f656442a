/**
 * Sends the stored calls and stores their outcomes, so that each has its effect once. A call with an unknown outcome (a
 * crash, a broken connection, an upstream that was down) is repeated under the same derived key when the upstream
 * recognises repetitions. When it does not, the call is never sent again, and the upstream's state is read instead.
 */
import pLimit, { type LimitFunction } from 'p-limit'
import { adcpError } from '../adcp/answer.js'
import type { Clock } from '../net/clock.js'
import { createRecent } from '../process/memory.js'
import { type Call, callJob, callTarget, readCall } from '../store/call.js'
import type { Held, JobEnd } from '../store/jobs.js'
import type { Ending, PromisedRecords } from '../store/promised-work.js'
import type { Store } from '../store/store.js'
import { pauseAfter, type Worker } from '../store/worker.js'
import type { AgentOutcome } from '../upstreams/agent/agent.js'
import { withSignals } from '../upstreams/agent/answer.js'
import { listingsOf } from '../upstreams/rows/read-rows.js'
import { type AnswerJudge, type UnderstoodAnswer, understand } from './upstream-answer.js'

/** Upstreams remember keys for 24 h; a repetition after that could activate twice. */
const REPEAT_FOR_MS = 20 * 60 * 60 * 1_000
const LOOK_FOR_MS = 10 * 60 * 1_000 // how long to read the state of an agent that does not recognise repetitions
const WORK_MS = 30_000 // for one call of a job that nobody waits for
const PER_UPSTREAM = 32 // calls under way at one upstream: its own queue is short, and refuses more
const MAX_UPSTREAMS = 10_000
const LEAST_TIME_MS = 1_000 // for a second try; with less time it would fail like the first
const LATER_SECONDS = 1 // while the outcome of a later request is open

const REQUEST_BUDGET_MS = 30_000 // for the upstreams, even if the caller's transport allows more

/** The end of the upstreams' time for a request, ms since the epoch. */
export const upstreamsUntil = (deadline: number, now: number) => Math.min(deadline, now + REQUEST_BUDGET_MS)

/** Where a crash leaves different traces; tests kill the process with requests at each. */
export const CHECKPOINTS = ['planned', 'intended', 'answered', 'settled', 'concluded'] as const
export type Checkpoint = (typeof CHECKPOINTS)[number]

/** Called between the steps of a request, which continues when the returned promise resolves. */
export type Reached = (checkpoint: Checkpoint) => void | Promise<void>

type CallContext = {
  deadline: number
  caller: string
  /** In whose name: by a credential of the caller's own, which may be gone by now, or by the shared one; else as things are now. */
  seenAs?: Call['seenAs']
  isCredentialed?: Call['isCredentialed']
  /** When it may first have been sent: it is repeated only at an upstream that recognises the repetition. */
  sentAt?: number
}

/** `agentUrl`: canonical url. An id is no address: while a call is open, it may become another agent's. */
export type CallUpstream = (
  agentUrl: string,
  task: string,
  args: Readonly<Record<string, unknown>>,
  context: CallContext,
) => Promise<AgentOutcome>

type Done = Extract<UnderstoodAnswer, { kind: 'done' | 'submitted' }>

/** A call without the parts that must not be done, and whether anything remains. */
export type StillToDo = { call: Call; isNeeded: boolean }

/** What a kind of call means beyond being made. */
export type CallKind = {
  judge(call: Call): AnswerJudge
  /** Whether a call that did not reach its agent is tried again in the background, or left to its caller. */
  persists(call: Call): boolean
  /** The part of `call` that the `later` calls on the same target, taken together, reversed. */
  undone(call: Call, later: readonly Call[]): 'nothing' | 'a part' | 'all'
  /** The part of `call`, which was never sent, that the `later` calls on the same target left to do. */
  rest(call: Call, later: readonly Call[]): StillToDo
  /** Checks again, with the call held, which part of it is still to be done. */
  stillToDo?(repositories: Pick<PromisedRecords, 'ledger'>, call: Call): Promise<StillToDo>
  /** How to see its effect when it cannot be repeated; absent when nothing shows it. */
  state?: {
    question(call: Call): Readonly<Record<string, unknown>>
    /** Undefined when the answer does not show that it was done. */
    read(call: Call, payload: Readonly<Record<string, unknown>>): Done | undefined
  }
  /** What is kept of the upstream's answer; without an answer, of a call that was not needed. */
  digest(call: Call, done?: Done): unknown
  /** What follows from the outcome, stored together with it. */
  follows(repositories: Pick<PromisedRecords, 'ledger'>, call: Call): Promise<Omit<Ending, keyof JobEnd>>
}

type DeliveryOptions = {
  store: Store
  clock: Clock
  call: CallUpstream
  /** The current id of an agent (canonical url). */
  upstreamAt: (agentUrl: string) => string
  kinds: Readonly<Record<Call['task'], CallKind>>
  /** Called with an agent (canonical url) where something changed for a caller. */
  onChanged: (agentUrl: string, caller: string) => void
  reached: Reached
}

/**
 * The current state of a call; an open one says when to ask again, in seconds, and whether only its effect is being
 * watched.
 */
export type Delivered = { call: Call; retryAfter?: number; watched?: boolean }

/** A call that this process works on. */
type Working = Call & { held: Held }

/** Nothing was done under its key. */
const GIVEN_UP = adcpError('SERVICE_UNAVAILABLE', 'The operator of this agent ended it before it was sent.', {
  retry_after: 60,
  suggestion: 'Send the request again when you still want it, or choose another offer.',
})

/** Attempts so far that certainly did not reach the agent. */
const unsentOf = ({ held }: Working) => (held.data as { unsent?: number }).unsent ?? 0

/** In whose name a call goes. */
function nameIn({ caller, seenAs, isCredentialed }: Call) {
  return { caller, seenAs, ...(isCredentialed && { isCredentialed }) }
}

/**
 * Reads from the upstream's own rows whether a call was carried out, where it cannot be repeated or its answer named no task.
 * Undefined where they do not say it.
 */
export function createStateReading(ask: CallUpstream) {
  return async ({ state }: CallKind, call: Call, deadline: number): Promise<Done | undefined> => {
    if (!state) return undefined
    const { agentUrl } = call
    const context = { deadline, ...nameIn(call) }
    const outcome = await ask(agentUrl, 'get_signals', state.question(call), context)
    if (outcome.kind !== 'answer') return undefined
    return state.read(call, withSignals(outcome.payload, listingsOf(outcome.rows)))
  }
}

/** Gives a function of the worker that holds the calls: the two are made of each other. */
export function createDelivery(options: DeliveryOptions) {
  const { store, clock, upstreamAt, kinds, onChanged, reached } = options
  const readState = createStateReading(options.call)
  const places = createRecent<LimitFunction>(MAX_UPSTREAMS) // by upstream

  async function end(call: Working, state: Exclude<Call['state'], 'open'>, answer?: unknown): Promise<Call> {
    const ended: Call = { ...call, state, ...(answer !== undefined && { answer }) }
    const follows = await kinds[call.task].follows(store, ended)
    const first = await store.conclude({ ...follows, held: call.held, state, answer })
    await reached('settled')
    if (first) return ended
    const job = await store.jobs.get(call.id) // another process holds it now: its findings count
    return job ? readCall(job) : ended
  }

  function placeAt(agentUrl: string): LimitFunction {
    const known = places.get(agentUrl)
    if (known) return known
    const place = pLimit(PER_UPSTREAM)
    places.set(agentUrl, place)
    return place
  }

  /** `sentAt`: it may have been sent at that time. */
  async function ask(call: Call, deadline: number, sentAt?: number): Promise<UnderstoodAnswer> {
    const { agentUrl, task } = call
    const args = { ...call.args, idempotency_key: call.upstreamKey }
    const context = { deadline, ...nameIn(call), ...(sentAt !== undefined && { sentAt }) }
    const outcome = await placeAt(agentUrl)(async (): Promise<AgentOutcome> => {
      if (clock.now() < deadline) return await options.call(agentUrl, task, args, context)
      return { kind: 'failed', reason: 'backing_off', message: 'no place was free in time' }
    })
    const upstream = upstreamAt(agentUrl)
    return understand(outcome, {
      ...{ upstream, judge: kinds[task].judge(call) },
      mayHaveActed: sentAt !== undefined,
    })
  }

  /** The later calls on the same target that had an effect, or still may. */
  async function laterThan(call: Call): Promise<Call[]> {
    const target = callTarget(call)
    if (target === undefined) return []
    const later = (await store.jobs.later({ kind: 'call', target, seq: call.seq })).map(readCall)
    return later.filter(({ state }) => state !== 'refused' && state !== 'superseded')
  }

  /** For a call that may have been sent before: how it ends when later requests with an effect have reversed it. */
  async function askAgain(
    call: Call,
    deadline: number,
  ): Promise<UnderstoodAnswer | 'superseded' | 'abandoned'> {
    const { undone } = kinds[call.task]
    const later = await laterThan(call)
    const undecided = later.filter(({ state }) => state === 'open')
    if (undone(call, undecided) !== 'nothing') return { kind: 'unknown', retryAfter: LATER_SECONDS }
    const much = undone(call, later)
    // Nobody reversed the rest of it, but its state is unknown, and it cannot be asked for separately.
    if (much !== 'nothing') return much === 'all' ? 'superseded' : 'abandoned'
    const understood = await ask(call, deadline, call.createdAt)
    return understood.kind === 'unrepeatable'
      ? ((await readState(kinds[call.task], call, deadline)) ?? understood)
      : understood
  }

  /** The state after an attempt without a result: another attempt later, or `unknown` when it is too late for one. */
  async function leave(call: Working, understood: Exclude<UnderstoodAnswer, Done>): Promise<Delivered> {
    const age = clock.now() - call.createdAt
    const watched = understood.kind === 'unrepeatable'
    const tooLate = age > (watched ? LOOK_FOR_MS : REPEAT_FOR_MS)
    if (tooLate || (watched && !kinds[call.task].state)) return { call: await end(call, 'abandoned') }
    if (understood.kind === 'not_made') {
      await store.jobs.note(call.held, { ...(call.held.data as object), unsent: call.attempts })
    }
    const retryAfter = 'retryAfter' in understood ? understood.retryAfter : 1
    await store.jobs.release(call.held, Math.min(retryAfter * 1_000, pauseAfter(call.attempts)))
    return { call, retryAfter, ...(watched && { watched }) }
  }

  /** The call as it was sent, which a repetition must send again. */
  async function narrowed({ held }: Working, todo: Call): Promise<Working> {
    const { data } = callJob(todo)
    await store.jobs.note(held, data)
    return { ...todo, held: { ...held, data } }
  }

  /** Sends a call that this process holds. After a broken connection it tries once more at once. */
  async function make(given: Working, deadline: number, isFresh: boolean): Promise<Delivered> {
    const kind = kinds[given.task]
    const sentBefore = given.attempts - 1 > unsentOf(given)
    const { call: todo, isNeeded } = (await kind.stillToDo?.(store, given)) ?? { call: given, isNeeded: true }
    if (!isNeeded) return { call: await end({ ...todo, held: given.held }, 'answered', kind.digest(todo)) }
    // A repetition sends the whole call: a part of it would be another request.
    if (sentBefore && todo !== given) return { call: await end(given, 'abandoned') }
    const later = sentBefore || isFresh ? [] : await laterThan(given) // a new one is the latest
    const left = kind.rest(todo, later)
    if (!left.isNeeded) return { call: await end({ ...todo, held: given.held }, 'superseded') }
    const call = left.call === given ? given : await narrowed(given, left.call)
    let understood = await (sentBefore ? askAgain(call, deadline) : ask(call, deadline))
    const isCut = typeof understood === 'object' && understood.kind === 'unknown'
    if (isCut && deadline - clock.now() > LEAST_TIME_MS) understood = await askAgain(call, deadline)
    await reached('answered')
    if (typeof understood === 'string') return { call: await end(call, understood) }
    if (understood.kind === 'refused') return { call: await end(call, 'refused', understood.error) }
    if (understood.kind === 'not_made' && !kind.persists(call)) {
      return { call: await end(call, 'refused', understood.error) }
    }
    if (understood.kind !== 'done' && understood.kind !== 'submitted') return await leave(call, understood)
    const ended = await end(call, 'answered', kind.digest(call, understood))
    onChanged(call.agentUrl, call.caller)
    return { call: ended }
  }

  /** Ends an open call for good: refused if it certainly did not reach the agent, with an unknown effect if it may have. */
  async function giveUp(held: Held): Promise<void> {
    const call = { ...readCall(held), held }
    if (call.attempts - 1 > unsentOf(call)) await end(call, 'abandoned')
    else await end(call, 'refused', GIVEN_UP)
  }

  return (worker: Worker) => {
    async function makeOrRelease(held: Held, deadline: number): Promise<Delivered> {
      try {
        return await make({ ...readCall(held), held }, deadline, false)
      } catch (error) {
        await store.jobs.release(held, pauseAfter(held.attempts))
        throw error
      }
    }

    return {
      hold: worker.hold,
      reserve: worker.reserve,
      giveUp,
      /** Sends a call that was just stored and is held. */
      deliver: (held: Held, deadline: number): Promise<Delivered> =>
        worker.during(held, () => make({ ...readCall(held), held }, deadline, true)),
      /** Continues an open call; undefined when it is not open, another process holds it, or it must wait. */
      async repeat(id: string, deadline: number): Promise<Delivered | undefined> {
        const held = await worker.claim(id, true)
        return held && (await worker.during(held, () => makeOrRelease(held, deadline)))
      },
      /** The same as background work. */
      run: async (held: Held): Promise<void> =>
        void (await make({ ...readCall(held), held }, clock.now() + WORK_MS, false)),
    }
  }
}

export type Delivery = ReturnType<ReturnType<typeof createDelivery>>
