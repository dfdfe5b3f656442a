/**
 * Sends each subscriber what changed: one job a subscription, which knows the versions that it sent last, so that events come in
 * order, none is sent under two keys, and a restart continues from there. While a receiver is slow, changes gather, and the next
 * comparison sends them as one; a receiver that was away for long is sent one event that says to read again.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { BULK_EVENT, type FeedEventType } from '../adcp/signal.js'
import { type Clock, doubledMs } from '../net/clock.js'
import { createSpareTime, type SpareTime, type ThreadTime } from '../process/portions.js'
import { createLots } from '../store/database/storage-work.js'
import type { Held, JobChange } from '../store/jobs.js'
import type { StoredSubscription } from '../store/records/accounts.js'
import type { Store } from '../store/store.js'
import { createTurn, createWorker, type Worker } from '../store/worker.js'
import type { FeedEvent } from './changes.js'
import { type Eyes, eyesName, type Standings, sameVersions, type ToldVersions } from './standings.js'
import { FEED_EVENTS_JOB, isLost, type Pending, type Stream, stateAfter, taken, withheld } from './stream.js'
import { hasLostSecret, type PushConfig, type Webhook, type WebhookOutcome } from './webhook.js'

const IDLE_MS = 3_600_000 // a subscriber is woken when something changes; this is in case that fails
const LOOK_AGAIN_MS = 5_000 // while subscribers cannot be looked for
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 5 * 60_000
const OUTAGE_MS = 15 * 60_000
const GIVE_UP_MS = 24 * 3_600_000
/** A caller whose receivers all hang leaves most places to others. */
const PLACES = { inAll: 256, aLane: 32 }
/** After so long a slow subscriber leaves its place to others that wait, and continues when it has a place again. */
const LONGEST_TURN_MS = 10_000
/** So often a turn looks whether its subscription still stands: any process may have been told that it does not. */
const WANTED_MS = 1_000
/**
 * Subscribers that are claimed, and whose events are written down, as one: each round trip to the storage wakes the thread that
 * serves, and each commit waits for the disk; but what is done for all of a lot is done without a stop.
 */
export const TOGETHER = 8
/** What waits for as many subscribers is written at once; what is larger, with fewer others. */
const BYTES_OF_ONE = 4 * 1_024
/** Subscribers that are looked at before others have the thread. */
const LOOKED_AT = 500

type StreamChange = JobChange & { data: Stream }
type Failure = Exclude<WebhookOutcome, { kind: 'delivered' }>

type AnnouncerOptions = {
  store: Pick<Store, 'jobs' | 'subscriptions' | 'write'>
  standings: Standings
  webhook: Webhook
  clock: Clock
  random(): number
  newId(): string
  /** The reader that sees the feed for an account of a caller; undefined when there is no such caller any more. */
  eyesOf(caller: string, account: string): Eyes | undefined
  /** Whether a read of the account would be answered now. */
  isOpen(caller: string, account: string): Promise<boolean>
  /** Told of what an operator should know. */
  onProblem(problem: string): void
  /** Default: that of the thread which tells. */
  threadTime?: ThreadTime
  /** Told of each delivery: `delivered`, `failed`, `refused` or `suspended`. */
  onOutcome?(outcome: 'delivered' | 'failed' | 'refused' | 'suspended'): void
}

/** What is sent to one receiver. Its key is the same however often it is sent. */
type Notification = { key: string; type: FeedEventType; body: string }

/**
 * The webhook for one receiver (schema core/wholesale-feed-webhook), under a new idempotency key; the event in it is the same for
 * everybody who sees the feed alike. `at`: when the notification is made, ms since the epoch.
 */
function notificationOf(
  event: FeedEvent,
  to: { subscriber: string; account: string },
  at: number,
): Notification {
  const key = `whk_${randomUUID()}`
  const { id, type, scope, json, previous, version } = event
  const envelope = JSON.stringify({
    idempotency_key: key,
    notification_id: id,
    notification_type: type,
    fired_at: new Date(at).toISOString(),
    subscriber_id: to.subscriber,
    account_id: to.account,
    wholesale_feed_version: version.feed,
    previous_wholesale_feed_version: previous.feed,
    cache_scope: scope,
    ext: { tributary: { pricing_version: version.pricing, previous_pricing_version: previous.pricing } },
  })
  return { key, type, body: `${envelope.slice(0, -1)},"event":${json}}` }
}

/** A notification as it is stored until it is sent: encrypted when activation keys are in it. */
function pendingForm({ body, ...rest }: Notification): Pending {
  return body.includes('"activation_key"') ? { ...rest, sealed: body } : { ...rest, body }
}

/** How much of a lot of writes the change of a stream takes. */
const weightOf = ({ data }: StreamChange) =>
  1 + data.pending.reduce((sum, { body, sealed }) => sum + (body ?? sealed ?? '').length, 0) / BYTES_OF_ONE

/** A subscriber that is up to date: enough to see when it is no longer, and no secrets. */
type Idle = Pick<StoredSubscription, 'caller' | 'accountId'> & { versions: ToldVersions | undefined }

export function createAnnouncer(options: AnnouncerOptions) {
  const { store, standings, webhook, clock, random, newId, eyesOf, isOpen, onProblem } = options
  const { threadTime, onOutcome = () => {} } = options
  const idle = new Map<string, Idle>()
  let worker: Worker | undefined
  let spareTime: SpareTime | undefined
  let checking: Promise<void> | undefined
  let [again, isLoaded] = [false, false]
  let cancelLook = () => {}

  const subscriptionOf = createLots(store.subscriptions.byJobs, { next: nextTurn })
  const note = createLots<StreamChange, boolean>(store.jobs.changeAll, { next: nextTurn, weight: weightOf })
  /** Once the deliveries that wait have begun, what ended meanwhile is written as one. */
  const release = createLots<StreamChange & { afterMs: number }, boolean>(store.jobs.changeAll, {
    next: async () => await spareTime?.next(),
    weight: weightOf,
  })

  function pendingOf({ config, subscriberId, accountId }: StoredSubscription, events: readonly FeedEvent[]) {
    const wanted = new Set(config.event_types as string[])
    const to = { subscriber: subscriberId, account: accountId }
    return events
      .filter(({ type }) => wanted.has(type))
      .map((event) => pendingForm(notificationOf(event, to, clock.now())))
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
    const asked = delivery.kind === 'undelivered' ? (delivery.retryAfterMs ?? 0) : 0
    const pause = Math.max(pauseAfter(next.failures), asked)
    await release({ held, afterMs: pause, data: next })
  }

  /** Sends what is pending in its order; the stream after what was taken, and why the rest was not. */
  async function sent(
    subscription: StoredSubscription,
    stream: Stream,
    isOver: (stream: Stream) => Promise<boolean>,
  ): Promise<{ stream: Stream; isCut?: boolean; failure?: Failure }> {
    const config = subscription.config as unknown as PushConfig
    for (const [index, { type, body, sealed }] of stream.pending.entries()) {
      const left = () => (index === 0 ? stream : taken(stream, index))
      await spareTime?.next()
      if (await isOver(stream)) return { stream: left(), isCut: true }
      const headers = { 'x-adcp-notification-type': type }
      const delivery = await webhook(subscription.caller, config, body ?? sealed ?? '', headers)
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
      if (isOurs) idle.set(held.id, one)
      // What was published between the comparison and now would wait for the next change.
      if (isOurs && (await isBehind(one, standings.current))) published()
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

  async function run(held: Held): Promise<void> {
    idle.delete(held.id)
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
    const isOver = async (stream: Stream) => {
      if (clock.now() - lookedAt >= WANTED_MS) {
        lookedAt = clock.now()
        if (!((await unsuspended(held.id)) && (await isOpen(caller, accountId)))) return true
      }
      const now = eyesOf(caller, accountId)
      return !worker || !now || eyesName(now) !== stream.eyes || clock.now() - startedAt >= LONGEST_TURN_MS
    }
    let stream = held.data as Stream
    if (stream.eyes !== eyesName(eyes) || stream.pending.some(isLost)) stream = withheld(stream)
    for (;;) {
      const { stream: after, failure, isCut } = await sent(subscription, stream, isOver)
      if (failure) return await later(held, subscription, after, failure)
      if (isCut) return void (await release({ held, afterMs: 0, data: after }))
      const next = await compared(subscription, after, eyes)
      stream = next
      if (next === after) break
      if (next.pending.length > 0 && !(await note({ held, data: next }))) return
    }
    await waitForChange(held, { caller, accountId, versions: stream.versions }, stream)
  }

  async function isBehind(
    { caller, accountId, versions }: Idle,
    currentOf: Standings['current'],
  ): Promise<boolean> {
    const eyes = eyesOf(caller, accountId)
    const current = eyes && (await currentOf(eyes))
    return current !== undefined && (versions === undefined || !sameVersions(current, versions))
  }

  async function check(): Promise<void> {
    const waiting: string[] = []
    if (!isLoaded) {
      waiting.push(...(await store.subscriptions.jobs()))
      isLoaded = true
    }
    const known = new Map<string, ToldVersions | undefined>() // the current versions, by reader
    async function currentOf(eyes: Eyes): Promise<ToldVersions | undefined> {
      const name = eyesName(eyes)
      if (!known.has(name)) known.set(name, await standings.current(eyes))
      return known.get(name)
    }
    for (const [order, [job, one]] of [...idle].entries()) {
      if (order % LOOKED_AT === LOOKED_AT - 1) await nextTurn()
      if (!(await isBehind(one, currentOf)) || idle.get(job) !== one) continue
      idle.delete(job) // until it has been told
      waiting.push(job)
    }
    if (waiting.length === 0) return
    await store.jobs.hasten(waiting, { untriedOnly: true }) // who took nothing is tried when its pause is over
    worker?.wake()
  }

  async function checkAll(): Promise<void> {
    try {
      while (again && worker) {
        again = false
        await check()
      }
    } catch (error) {
      isLoaded = false // what could not be woken is looked for as after a start
      cancelLook()
      cancelLook = clock.after(LOOK_AGAIN_MS, published)
      onProblem(`subscribers could not be looked for: ${error instanceof Error ? error.message : error}`)
    }
    checking = undefined // in the same step as the last look at `again`: no generation falls between the two
  }

  /** Call it with each generation: subscribers that see a difference are notified. */
  function published(): void {
    if (!worker) return
    again = true
    checking ??= checkAll()
  }

  const turn = createTurn({
    ...{ name: 'feed-events', jobs: store.jobs, clock, owner: newId(), onProblem },
    take() {
      const pace = createSpareTime(threadTime)
      const mine = createWorker({
        ...{ jobs: store.jobs, clock, owner: newId(), places: PLACES },
        ...{ together: TOGETHER, next: pace.nextToBegin },
        kinds: { [FEED_EVENTS_JOB]: { run, longestPauseMs: LONGEST_PAUSE_MS } },
        onProblem: (problem) => onProblem(`events: ${problem}`),
      })
      worker = mine
      spareTime = pace
      isLoaded = false
      mine.start()
      published()
      return async () => {
        if (worker === mine) worker = undefined
        pace.close()
        await mine.close()
        await checking
        idle.clear()
      }
    },
  })

  return {
    start: turn.start,
    published,
    /** How a job of this kind is ended: nothing more is sent to the subscriber, who may register again. */
    givingUp: {
      async [FEED_EVENTS_JOB](held: Held): Promise<void> {
        const [subscription] = await store.subscriptions.byJobs([held.id])
        if (subscription) await suspend(held, subscription, 'an operator gave it up')
        else await store.jobs.end(held, 'ended')
      },
    },
    /** A subscription was made: its job is due. */
    wake: () => worker?.wake(),
    /** Sends everything that is due now, once; resolves when that is done. */
    async round(): Promise<void> {
      await turn.settled()
      published()
      await checking
      await worker?.round()
    },
    /** Subscribers that are up to date. */
    waiting: () => idle.size,
    close: turn.close,
  }
}

export type Announcer = ReturnType<typeof createAnnouncer>
