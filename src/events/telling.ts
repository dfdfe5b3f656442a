/**
 * Tells one subscriber what changed: what its job was left with, then what a comparison finds, until it holds what the feed is.
 * Events come in order and none is sent under two keys; what a receiver does not take is tried again after growing pauses.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { BULK_EVENT } from '../adcp/signal.js'
import { type Clock, doubledMs } from '../net/clock.js'
import { createLots } from '../store/database/storage-work.js'
import type { Held, JobChange } from '../store/jobs.js'
import type { StoredSubscription } from '../store/records/accounts.js'
import type { Store } from '../store/store.js'
import type { FeedEvent } from './changes.js'
import { notificationOf } from './notification.js'
import { type Eyes, eyesName, type Standings, sameVersions, type ToldVersions } from './standings.js'
import { isLost, type Stream, stateAfter, taken, withheld } from './stream.js'
import { hasLostSecret, type PushConfig, type Webhook, type WebhookOutcome } from './webhook.js'

const IDLE_MS = 3_600_000 // a subscriber is woken when something changes; this is in case that fails
const FIRST_PAUSE_MS = 1_000
/** Between two attempts at one receiver. */
export const LONGEST_PAUSE_MS = 5 * 60_000
const OUTAGE_MS = 15 * 60_000
const GIVE_UP_MS = 24 * 3_600_000
/** After so long a slow subscriber leaves its place to others that wait, and continues when it has a place again. */
const LONGEST_TURN_MS = 10_000
/** So often a turn looks whether its subscription still stands: any process may have been told that it does not. */
const WANTED_MS = 1_000
/** What waits for as many subscribers is written at once; what is larger, with fewer others. */
const BYTES_OF_ONE = 4 * 1_024

type StreamChange = JobChange & { data: Stream }
type Failure = Exclude<WebhookOutcome, { kind: 'delivered' }>

/** A subscriber that is up to date: enough to see when it is no longer, and no secrets. */
export type Idle = Pick<StoredSubscription, 'caller' | 'accountId'> & { versions: ToldVersions | undefined }

export type TellingOptions = {
  store: Pick<Store, 'jobs' | 'subscriptions' | 'write'>
  standings: Standings
  webhook: Webhook
  clock: Clock
  random(): number
  /** The reader that sees the feed for an account of a caller; undefined when there is no such caller any more. */
  eyesOf(caller: string, account: string): Eyes | undefined
  /** Whether a read of the account would be answered now. */
  isOpen(caller: string, account: string): Promise<boolean>
  /** Told of what an operator should know. */
  onProblem(problem: string): void
  /** Told of each delivery: `delivered`, `failed`, `refused` or `suspended`. */
  onOutcome?(outcome: 'delivered' | 'failed' | 'refused' | 'suspended'): void
}

type InTurn = {
  /** Resolves when the next delivery may begin. */
  spare(): Promise<void>
  /** Whether others tell from now on. */
  isOver(): boolean
  /** The subscriber of the job holds what the feed was: it is to be told when that changes. */
  onIdle(job: string, one: Idle): Promise<void>
}

/** How much of a lot of writes the change of a stream takes. */
const weightOf = ({ data }: StreamChange) =>
  1 + data.pending.reduce((sum, { body, sealed }) => sum + (body ?? sealed ?? '').length, 0) / BYTES_OF_ONE

export function createTelling(options: TellingOptions & InTurn) {
  const { store, standings, webhook, clock, random, eyesOf, isOpen, onProblem } = options
  const { spare, isOver, onIdle, onOutcome = () => {} } = options

  const subscriptionOf = createLots(store.subscriptions.byJobs, { next: nextTurn })
  const note = createLots<StreamChange, boolean>(store.jobs.changeAll, { next: nextTurn, weight: weightOf })
  /** Once the deliveries that wait have begun, what ended meanwhile is written as one. */
  const release = createLots<StreamChange & { afterMs: number }, boolean>(store.jobs.changeAll, {
    next: spare,
    weight: weightOf,
  })

  function pendingOf({ config, subscriberId, accountId }: StoredSubscription, events: readonly FeedEvent[]) {
    const wanted = new Set(config.event_types as string[])
    const to = { subscriber: subscriberId, account: accountId }
    return events
      .filter(({ type }) => wanted.has(type))
      .map((event) => notificationOf(event, to, clock.now()))
  }

  /** The stream with the next events; the same stream when there are none. */
  async function compared(subscription: StoredSubscription, stream: Stream, eyes: Eyes): Promise<Stream> {
    if (!stream.versions) {
      const versions = await standings.current(eyes)
      return versions ? { ...stream, versions } : stream
    }
    const { versions: base, hasMissed = false } = stream
    const next = await standings.since(base, eyes, hasMissed, stream.lastId)
    if (!next) return stream
    const pending = pendingOf(subscription, next.events)
    const after: Stream = { ...stream, ...stateAfter(next), base, pending, eyes: eyesName(eyes) }
    delete after.hasMissed
    return after
  }

  /** One event in place of all that are pending: they were too many, or cannot be sent any more. */
  async function coalesced(subscription: StoredSubscription, stream: Stream): Promise<Stream> {
    const eyes = eyesOf(subscription.caller, subscription.accountId)
    const takesIt = (subscription.config.event_types as string[]).includes(BULK_EVENT)
    const before = stream.base ?? stream.versions
    if (!eyes || !before || !takesIt) return stream
    const next = await standings.since(before, eyes, true, stream.lastId)
    const isSaid =
      stream.isCoalesced && stream.versions && next && sameVersions(stream.versions, next.versions)
    if (!next || isSaid) return stream
    const pending = pendingOf(subscription, next.events)
    return { ...stream, ...stateAfter(next), pending, eyes: eyesName(eyes), isCoalesced: true }
  }

  async function suspend(held: Held, { subscriberId }: StoredSubscription, reason: string): Promise<void> {
    const isOurs = await store.write(async ({ jobs, subscriptions }) => {
      if (!(await jobs.end(held, 'suspended', { reason }))) return false
      await subscriptions.suspend(held.id, { reason, at: clock.now() })
      return true
    })
    if (!isOurs) return
    onOutcome('suspended')
    onProblem(`subscriber ${subscriberId} of ${held.caller} is told nothing any more: ${reason}`)
  }

  function pauseAfter(failures: number): number {
    return doubledMs(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS) * (0.75 + random() / 2)
  }

  async function later(held: Held, subscription: StoredSubscription, stream: Stream, delivery: Failure) {
    onOutcome('failed')
    const now = clock.now()
    const { failingSince = now } = stream
    if (delivery.kind === 'rejected' && delivery.status === 410) {
      return await suspend(held, subscription, 'the receiver answered 410, gone')
    }
    if (now - failingSince >= GIVE_UP_MS) {
      return await suspend(held, subscription, `the receiver took nothing for a day (${delivery.reason})`)
    }
    const failed: Stream = { ...stream, failures: stream.failures + 1, failingSince }
    const isOutage = now - failingSince >= OUTAGE_MS
    const next = isOutage ? await coalesced(subscription, failed) : failed
    const pause = Math.max(pauseAfter(next.failures), delivery.retryAfterMs ?? 0)
    await release({ held, afterMs: pause, data: next })
  }

  /** Sends what is pending in its order; the stream after what was taken, and why the rest was not. */
  async function sent(
    subscription: StoredSubscription,
    stream: Stream,
    { isLong, isWanted }: { isLong(): boolean; isWanted(stream: Stream): Promise<boolean> },
  ): Promise<{ stream: Stream; isCut?: boolean; failure?: Failure }> {
    const config = subscription.config as unknown as PushConfig
    for (const [index, { type, body, sealed }] of stream.pending.entries()) {
      const left = () => (index === 0 ? stream : taken(stream, index))
      await spare()
      const isStillWanted = () => isWanted(stream)
      if (isLong() || !(await isStillWanted())) return { stream: left(), isCut: true }
      const headers = { 'x-adcp-notification-type': type }
      const text = body ?? sealed ?? ''
      const delivery = await webhook(subscription.caller, config, text, headers, isStillWanted)
      if (delivery.kind === 'delivered') {
        onOutcome('delivered')
        continue
      }
      if (delivery.kind === 'rejected' && delivery.signature) {
        // Final for this event: what comes after it shows by its version that one is missing.
        onOutcome('refused')
        onProblem(`subscriber ${subscription.subscriberId}: our signature is refused (${delivery.signature})`)
        continue
      }
      if (delivery.reason === 'aborted') return { stream: left(), isCut: true }
      return { stream: left(), failure: delivery }
    }
    return { stream: stream.pending.length === 0 ? stream : taken(stream, stream.pending.length) }
  }

  /** There is nothing to be sent now: its job is due when something changes. */
  async function waitForChange(held: Held, one: Idle, stream: Stream): Promise<void> {
    let isOurs = true // also where no answer came: it may have been written
    try {
      isOurs = await release({ held, afterMs: IDLE_MS, data: stream, forgetsAttempts: true })
    } finally {
      if (isOurs) await onIdle(held.id, one)
    }
  }

  /** Its caller or account is no longer configured: nothing is sent until they are again, and then that it must read again. */
  async function rest(held: Held, one: StoredSubscription, isKnown: boolean): Promise<void> {
    const { caller, accountId } = one
    const stream = taken(withheld(held.data as Stream), 0)
    if (isKnown) await release({ held, afterMs: LONGEST_PAUSE_MS, data: stream })
    else await waitForChange(held, { caller, accountId, versions: undefined }, stream)
  }

  /** The subscription of a job; undefined when it is gone or suspended. */
  async function unsuspended(job: string): Promise<StoredSubscription | undefined> {
    const found = await subscriptionOf(job)
    return found?.suspended ? undefined : found
  }

  async function tell(held: Held): Promise<void> {
    const startedAt = clock.now()
    const subscription = await unsuspended(held.id)
    if (!subscription) return void (await store.jobs.end(held, 'ended'))
    if (hasLostSecret(subscription.config as unknown as PushConfig)) {
      const reason = 'its credentials were not stored: set storage.key, and register it again'
      return await suspend(held, subscription, reason)
    }
    const { caller, accountId } = subscription
    const eyes = eyesOf(caller, accountId)
    if (!eyes || !(await isOpen(caller, accountId))) return await rest(held, subscription, eyes !== undefined)
    let lookedAt = startedAt
    const isLong = () => clock.now() - startedAt >= LONGEST_TURN_MS
    const isWanted = async (stream: Stream) => {
      if (clock.now() - lookedAt >= WANTED_MS) {
        lookedAt = clock.now()
        if (!((await unsuspended(held.id)) && (await isOpen(caller, accountId)))) return false
      }
      const now = eyesOf(caller, accountId)
      return !isOver() && now !== undefined && eyesName(now) === stream.eyes
    }
    let stream = held.data as Stream
    if (stream.eyes !== eyesName(eyes) || stream.pending.some(isLost)) stream = withheld(stream)
    for (;;) {
      const { stream: after, failure, isCut } = await sent(subscription, stream, { isLong, isWanted })
      if (failure) return await later(held, subscription, after, failure)
      if (isCut) return void (await release({ held, afterMs: 0, data: after }))
      const next = await compared(subscription, after, eyes)
      stream = next
      if (next === after) break
      if (next.pending.length > 0 && !(await note({ held, data: next }))) return
    }
    // Who has missed something is told to read again as soon as there is something to be read, whatever that is.
    const versions = stream.hasMissed ? undefined : stream.versions
    await waitForChange(held, { caller, accountId, versions }, stream)
  }

  return { tell, suspend }
}
