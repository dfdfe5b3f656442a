/**
 * What the tasks that change something need: one request, one effect. A caller's idempotency key is bound to its request before
 * anything is done, the calls that follow are stored with it, and a repetition gets the original's answer (specification,
 * "Authentication" 6). Work in the background finishes whatever a crash or a silent upstream left open.
 */
import { type Answer, type Refused, refuse } from '../adcp/answer.js'
import { type Clock, pause } from '../net/clock.js'
import { callJob, type NewCall, readCall } from '../store/call.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { EntryOfJob } from '../store/promised-work.js'
import type { Binding, KeyedRequest } from '../store/records/idempotency.js'
import { createForgetting, type Retention } from '../store/retention.js'
import type { Store } from '../store/store.js'
import { createWorker, type Worker } from '../store/worker.js'
import { activationCalls, usageCalls } from './call-kinds.js'
import {
  type CallUpstream,
  createDelivery,
  type Delivered,
  type Delivery,
  type Reached,
  upstreamsUntil,
} from './delivery.js'
import { endedAmong } from './holders.js'
import type { ResolveHandle } from './route.js'
import { createTaskProgress } from './task-progress.js'

const FORGET_EVERY_MS = 60_000
const STORAGE_RETRY_SECONDS = 5
const WATCH_MS = 100 // how often to look for the outcome of another process's call

/**
 * The key was used for another request. The answer says nothing about that request, and the error has no optional
 * member.
 */
export function keyConflict(): Refused {
  const message =
    'This idempotency_key was used for another request: repeat a request unchanged, or use a fresh key.'
  return refuse('IDEMPOTENCY_CONFLICT', message, {})
}

/** The same request is still being worked on, by another process or an earlier connection. */
export function stillRunning(): Refused {
  return refuse('SERVICE_UNAVAILABLE', 'The first request with this key is still being worked on.', {
    retry_after: 1,
    suggestion: 'Repeat the same request with the same idempotency_key.',
  })
}

/** A storage that cannot serve now is told as SERVICE_UNAVAILABLE; nothing was done without being stored. */
export async function unlessStorageDown<T>(work: () => Promise<T>): Promise<T | Refused> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof StorageUnavailable)) throw error
    return refuse('SERVICE_UNAVAILABLE', 'This agent cannot store what it does just now.', {
      retry_after: STORAGE_RETRY_SECONDS,
      suggestion: 'Repeat the same request with the same idempotency_key.',
    })
  }
}

export type Plan = {
  kind: 'plan'
  calls: readonly NewCall[]
  /** The ledger entries of the calls. */
  entries: readonly EntryOfJob[]
}

export type Conclusion =
  | { kind: 'final'; answer: unknown } // to be stored for replays
  | { kind: 'kept'; answer: unknown } // already stored with the outcome behind it
  | { kind: 'open'; said: Answer } // the answer for now; the same request asks again

type Work = {
  /** Plans the calls and writes nothing. Returns an answer when there is nothing to do. */
  plan(): Promise<Plan | Answer>
  /** The answer that the outcomes of the calls add up to. */
  conclude(delivered: readonly Delivered[]): Promise<Conclusion>
  /** A final answer as its caller may see it now. */
  render(answer: unknown, replayed: boolean): Answer
}

type OnceOptions = {
  store: Store
  clock: Clock
  delivery: Delivery
  reached: Reached
}

type Flight = { request: KeyedRequest; said: Promise<Answer> }

function isSame(one: KeyedRequest, other: KeyedRequest): boolean {
  return one.task === other.task && one.fingerprint === other.fingerprint
}

/** For one process; what it promises holds for all that share its storage. */
function createOnce({ store, clock, delivery, reached }: OnceOptions) {
  const flights = new Map<string, Flight>() // requests that this process is answering

  async function conclude(
    request: KeyedRequest,
    work: Work,
    delivered: readonly Delivered[],
    replayed: boolean,
  ): Promise<Answer> {
    const conclusion = await work.conclude(delivered)
    if (conclusion.kind === 'open') return conclusion.said
    if (conclusion.kind === 'final') {
      await store.idempotency.answer(request.caller, request.key, conclusion.answer)
    }
    await reached('concluded')
    return work.render(conclusion.answer, replayed)
  }

  /** Continues a request without an answer: repeats its open calls, or waits for the process that holds them. */
  async function resume(
    request: KeyedRequest,
    calls: readonly string[],
    work: Work,
    deadline: number,
    replayed = true,
  ): Promise<Answer> {
    for (;;) {
      const jobs = await store.jobs.getAll(calls)
      const delivered = await Promise.all(
        jobs.map(async (job) =>
          job.state === 'open' ? await delivery.repeat(job.id, deadline) : { call: readCall(job) },
        ),
      )
      const known = delivered.filter((one) => one !== undefined)
      if (known.length === delivered.length) return await conclude(request, work, known, replayed)
      if (clock.now() + WATCH_MS >= deadline) return stillRunning()
      await pause(clock, WATCH_MS)
    }
  }

  /** The answer to a request whose key was used before. */
  async function again(
    request: KeyedRequest,
    bound: Exclude<Binding, { kind: 'fresh' }>,
    work: Work,
    deadline: number,
  ): Promise<Answer> {
    if (bound.kind === 'conflict') return keyConflict()
    if (bound.kind === 'answered') return work.render(bound.answer, true)
    return await resume(request, bound.calls, work, deadline)
  }

  /** Stores what is planned, and starts what may be done now. */
  async function begin(request: KeyedRequest, { calls, entries }: Plan, deadline: number) {
    const unreserve = delivery.reserve(calls.map(({ id }) => id))
    try {
      const { hold } = delivery
      const undertaken = await store.undertake({ request, jobs: calls.map(callJob), hold, entries })
      if (undertaken.kind === 'fresh') await reached('intended')
      const added = undertaken.kind === 'fresh' ? undertaken.jobs : []
      const held = added.flatMap((one) => (one.isHeld ? [one.job] : []))
      return { undertaken, deliveries: held.map((one) => delivery.deliver(one, deadline)) }
    } finally {
      unreserve()
    }
  }

  async function start(request: KeyedRequest, work: Work, deadline: number): Promise<Answer> {
    const plan = await work.plan()
    if (plan.kind !== 'plan') {
      // What it names may be gone by now; the first answer is still valid.
      const bound = await store.idempotency.find(request)
      return bound ? await again(request, bound, work, deadline) : plan
    }
    await reached('planned')
    const { undertaken, deliveries } = await begin(request, plan, deadline)
    if (undertaken.kind !== 'fresh') return await again(request, undertaken, work, deadline)
    const delivered = await Promise.all(deliveries)
    if (delivered.length === plan.calls.length) return await conclude(request, work, delivered, false)
    const calls = plan.calls.map(({ id }) => id)
    return await resume(request, calls, work, deadline, false) // another call for the same segment is under way
  }

  /** The one answer of a request, however often and wherever it is sent. `deadline` in ms since the epoch. */
  async function once(request: KeyedRequest, work: Work, deadline: number): Promise<Answer> {
    const name = JSON.stringify([request.caller, request.key])
    const flight = flights.get(name)
    if (flight) {
      if (!isSame(flight.request, request)) return keyConflict()
      const said = await flight.said
      return said.kind === 'answer' ? { ...said, replayed: true } : said
    }
    // Stored outcomes are kept; the rest is repeated under the same derived keys.
    const until = upstreamsUntil(deadline, clock.now())
    const said = unlessStorageDown(() => start(request, work, until)).finally(() => flights.delete(name))
    flights.set(name, { request, said })
    return await said
  }

  return once
}

export type ActivationOptions = {
  store: Store
  clock: Clock
  /** Unguessable. */
  newId: () => string
  resolve: ResolveHandle
  /** The current id of an agent (canonical url): an operator may change it or remove the agent. */
  upstreamAt: (agentUrl: string) => string
  /** Whether a caller has a credential of its own for an upstream. */
  hasOwnCredential: (caller: string, agentUrl: string) => boolean
  /** Whether other calls of an agent go with a credential. Default: none does. */
  hasSharedCredential?: (agentUrl: string) => boolean
  retention: Retention
  /** The upstreams' `call`, with the caller's own credential where the configuration has one. */
  call: CallUpstream
  /** An upstream where something changed for a caller: what it offers should be read again soon. */
  refreshSoon: (agentUrl: string, caller: string) => void
  /** Receives what an operator should know. */
  onProblem: (problem: string) => void
  /** Crash tests hold requests at a step and kill the process there. */
  reached?: Reached
}

/** For one running server. Stored work goes on from `start` on. */
export function createActivation(options: ActivationOptions) {
  const { store, clock, newId, resolve, upstreamAt, hasOwnCredential, call, refreshSoon, onProblem } = options
  const { retention, reached = () => {}, hasSharedCredential = () => false } = options
  const activations = activationCalls(() => `task_${newId()}`)
  const createdDelivery = createDelivery({
    ...{ store, clock, call, upstreamAt, reached },
    kinds: { activate_signal: activations, report_usage: usageCalls },
    onChanged: refreshSoon,
  })
  const createdProgress = createTaskProgress({
    ...{ store, clock, call, upstreamAt, kind: activations },
    onChanged: refreshSoon,
  })
  const worker: Worker = createWorker({
    ...{ jobs: store.jobs, clock },
    owner: newId(),
    kinds: {
      call: { run: (held) => delivery.run(held) },
      upstream_task: { run: (held) => progress.run(held) },
    },
    onProblem: (problem) => onProblem(`activation: ${problem}`),
  })
  const delivery = createdDelivery(worker)
  const progress = createdProgress(worker)
  const once = createOnce({ store, clock, delivery, reached })

  const forgetOld = createForgetting(store, retention, endedAmong)
  let forgetting: Promise<void> = Promise.resolve()
  let cancelForget = () => {}
  let closed = false

  function forget(): void {
    forgetting = forgetOld(clock.now())
      .catch((error: unknown) => {
        // The next round does what this one could not; a storage that is down is not a bug.
        const what = error instanceof StorageUnavailable ? error.message : String(error)
        onProblem(`activation: what is past its time could not be forgotten: ${what}`)
      })
      .then(() => {
        if (!closed) cancelForget = clock.after(FORGET_EVERY_MS, forget)
      })
  }

  return {
    ...{ store, newId, resolve, upstreamAt, hasOwnCredential, hasSharedCredential },
    once,
    progress,
    /** By kind of job: ends one without doing its work, for an operator. */
    givingUp: { call: delivery.giveUp, upstream_task: progress.giveUp },
    /** Does all the work that is due now, once. */
    round: worker.round,
    /** Continues what an earlier process left open, until `close`. */
    start(): void {
      worker.start()
      forget()
    },
    /** Starts nothing more; resolves when running work has ended. */
    async close(): Promise<void> {
      closed = true
      cancelForget()
      await worker.close()
      await forgetting
    },
  }
}

export type Activation = ReturnType<typeof createActivation>
