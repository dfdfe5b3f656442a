/**
 * Makes the calls that were written down, and writes down what came of them, so that each has its effect once: a call
 * whose outcome is not known (a crash, a broken connection, an upstream that was down) is repeated under the same
 * derived key, by whoever asks for its answer or by `repeatOpen`, for as long as upstreams remember keys.
 */
import { LRUCache } from 'lru-cache'
import pLimit, { type LimitFunction } from 'p-limit'
import type { Clock } from '../net/clock.js'
import type { Call, Lease, NewCall } from '../store/calls.js'
import type { Repositories, Store } from '../store/store.js'
import type { CallOutcome } from '../upstreams/upstreams.js'
import type { AddressOf } from './address.js'
import { type Understood, understand } from './upstream-answer.js'

/** Upstreams remember keys for 24 h; after this a repetition could be a second activation. */
const REPEAT_FOR_MS = 20 * 60 * 60 * 1_000
const LEASE_MARGIN_MS = 10_000 // from the deadline of a call to its record
const PER_UPSTREAM = 32 // calls under way at one upstream; its own queue is short, and refuses what does not fit
const REPEAT_AT_ONCE = 50
const MAX_UPSTREAMS = 10_000
const REPEATS_IN_PARALLEL = 4
const LEAST_TIME_MS = 1_000 // for a second try; a shorter one would end as the first

/** Where a crash leaves different traces; tests kill the process with requests at each. */
export const CHECKPOINTS = ['planned', 'intended', 'answered', 'settled', 'concluded'] as const
export type Checkpoint = (typeof CHECKPOINTS)[number]

/** Told where a request is between its steps; the request goes on when what it returned has resolved. */
export type Reached = (checkpoint: Checkpoint) => void | Promise<void>

export type UpstreamCall = (
  upstream: string,
  task: string,
  args: Readonly<Record<string, unknown>>,
  /** `caller`: who may have a credential of their own for the upstream. */
  context: { deadline: number; caller: string },
) => Promise<CallOutcome>

/** What a kind of call means beyond being made. */
export type CallKind = {
  /** Whether `errors[]` in an answer means that nothing was done. */
  errorsRefuse: boolean
  /** Whether repeating `call` would undo what `later`, on the same target, asked for. */
  undoes(call: Call, later: Call): boolean
  /** What is kept of the upstream's answer. */
  digest(call: Call, understood: Extract<Understood, { kind: 'done' | 'submitted' }>): unknown
  /** Records what follows from the outcome, with the outcome itself. */
  settled(repositories: Repositories, call: Call): Promise<void>
}

export type DeliveryOptions = {
  store: Store
  clock: Clock
  call: UpstreamCall
  addressOf: AddressOf
  kinds: Readonly<Record<Call['task'], CallKind>>
  /** Names this process in leases. */
  owner: string
  /** Told of an upstream where something changed for a caller. */
  onChanged: (upstream: string, caller: string) => void
  reached: Reached
}

/** A call as it stands now; an open one says when to ask again, in seconds. */
export type Delivered = { call: Call; retryAfter?: number }

export function createDelivery(options: DeliveryOptions) {
  const { store, clock, addressOf, kinds, owner, onChanged, reached } = options
  const stranded = new Set<string>() // calls whose outcome could not be kept; each leaves when it is repeated
  const places = new LRUCache<string, LimitFunction>({ max: MAX_UPSTREAMS }) // by upstream

  /** For a call that is made until `deadline`. */
  function lease(deadline: number): Lease {
    return { owner, until: deadline + LEASE_MARGIN_MS }
  }

  async function end(call: Call, state: Exclude<Call['state'], 'open'>, answer?: unknown): Promise<Call> {
    const ended: Call = { ...call, state, ...(answer !== undefined && { answer }) }
    const first = await store.write(async (repositories) => {
      const settled = await repositories.calls.settle(call.id, state, answer)
      if (settled) await kinds[call.task].settled(repositories, ended)
      return settled
    })
    await reached('settled')
    return first ? ended : ((await store.calls.get(call.id)) ?? ended)
  }

  function placeAt(upstream: string): LimitFunction {
    const known = places.get(upstream)
    if (known) return known
    const place = pLimit(PER_UPSTREAM)
    places.set(upstream, place)
    return place
  }

  async function ask(call: Call, deadline: number, mayHaveActed: boolean): Promise<Understood> {
    const { upstream, task, caller } = call
    const args = { ...call.args, idempotency_key: call.upstreamKey }
    const outcome = await placeAt(upstream)(async (): Promise<CallOutcome> => {
      if (clock.now() < deadline) return await options.call(upstream, task, args, { deadline, caller })
      return { kind: 'failed', reason: 'backing_off', message: 'no place was free in time' }
    })
    return understand(outcome, { upstream, errorsRefuse: kinds[task].errorsRefuse, mayHaveActed })
  }

  /** Makes a call that this process holds the lease of. A broken connection is tried once more at once. */
  async function make(call: Call, deadline: number): Promise<Delivered> {
    let understood = await ask(call, deadline, call.attempts > 1)
    if (understood.kind === 'unknown' && deadline - clock.now() > LEAST_TIME_MS) {
      understood = await ask(call, deadline, true)
    }
    await reached('answered')
    if (understood.kind === 'unknown') {
      await store.calls.endLease(call.id)
      return { call, retryAfter: understood.retryAfter }
    }
    if (understood.kind === 'refused') return { call: await end(call, 'refused', understood.error) }
    const ended = await end(call, 'answered', kinds[call.task].digest(call, understood))
    onChanged(call.upstream, call.caller)
    return { call: ended }
  }

  /** When the storage cannot take what came of it, nobody works on the call any more, although its lease says so. */
  async function orStranded(id: string, work: Promise<Delivered>): Promise<Delivered> {
    try {
      return await work
    } catch (error) {
      stranded.add(id)
      throw error
    }
  }

  /** Makes a call that was just intended, under the lease it was intended with. */
  async function deliver(call: NewCall, deadline: number): Promise<Delivered> {
    const made: Call = { ...call, state: 'open', attempts: 1, createdAt: clock.now() }
    return await orStranded(call.id, make(made, deadline))
  }

  /** A claimed call, unless it is too late for it or a later request is against it. */
  async function makeAgain(call: Call, deadline: number): Promise<Delivered> {
    if (clock.now() - call.createdAt > REPEAT_FOR_MS) return { call: await end(call, 'abandoned') }
    const later = call.target === '' ? [] : await store.calls.later(call)
    if (later.some((other) => kinds[call.task].undoes(call, other))) {
      return { call: await end(call, 'superseded') }
    }
    return await make({ ...call, upstream: await addressOf(call.upstream, call.id) }, deadline)
  }

  /** Repeats an open call; undefined when it is not open or somebody else is at it. */
  async function repeat(id: string, deadline: number): Promise<Delivered | undefined> {
    const isStranded = stranded.delete(id) // before the claim: of two that come at once one may have it
    try {
      const call = await store.calls.claim(id, lease(deadline), isStranded)
      return call && (await orStranded(id, makeAgain(call, deadline)))
    } catch (error) {
      if (isStranded) stranded.add(id)
      throw error
    }
  }

  /** Repeats what a crash or an upstream that was down left open; each gets `budgetMs`. */
  async function repeatOpen(budgetMs: number): Promise<void> {
    const limit = pLimit(REPEATS_IN_PARALLEL)
    const ids = new Set([...stranded, ...(await store.calls.unclaimed(REPEAT_AT_ONCE))])
    await Promise.all([...ids].map((id) => limit(() => repeat(id, clock.now() + budgetMs))))
  }

  return { lease, deliver, repeat, repeatOpen }
}

export type Delivery = ReturnType<typeof createDelivery>
