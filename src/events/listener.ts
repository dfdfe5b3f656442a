/**
 * Listens to upstreams that declare feed events: subscribes, proves our url, and reads an upstream early when it reports a change;
 * unsubscribes where the upstream has left the roster. An event is believed only in that something changed: rows are read,
 * verified and merged as always, and an event that is lost costs no more than the wait for the next scheduled reading.
 */
import { createHmac } from 'node:crypto'
import { FEED_EVENTS } from '../adcp/signal.js'
import { type Clock, doubledMs } from '../net/clock.js'
import type { KeyAnswer } from '../signing/key.js'
import type { ReplayGuard } from '../signing/verify.js'
import {
  createReceiver,
  type EventsPlace,
  keptSubscription,
  type ReceiverReply,
  type Sender,
  type SignedDelivery,
} from './receiver.js'

const LOOK_EVERY_MS = 1_000
const RENEW_MS = 3_600_000
const [FIRST_RETRY_MS, LONGEST_RETRY_MS] = [5_000, 5 * 60_000]
const CALL_MS = 60_000
const FAREWELL_MS = 10_000
const SUBSCRIBER = 'tributary'

/** An upstream that declares feed events. */
export type Teller = Sender & {
  id: string
  types: readonly string[]
  /** Calls `sync_accounts` of it as it is configured now, also once it has left; its answer, or why there is none. */
  syncAccounts(args: object, deadline: number): Promise<Record<string, unknown> | string>
}

/** A reading that an event asked for. */
export type HeardReading = {
  /** By how much sooner it is than scheduled. */
  gainedMs: number
  /** Readings that were due already, and serve this event too. */
  spared: number
}

type ListenerOptions = {
  /**
   * Every upstream, by its canonical url: as one that declares feed webhooks; undefined while it is not known whether it
   * does. One that declares none is left out.
   */
  tellers(): ReadonlyMap<string, Teller | undefined>
  /** Reads an upstream (canonical url) soon. */
  heard(agentUrl: string): HeardReading
  /** Our own account, where we are one of its buyers. */
  account(): object
  keyOf(sender: Sender, keyid: string): Promise<KeyAnswer>
  replay: ReplayGuard
  /** The url at which upstreams reach us. */
  publicUrl: string
  /** The url that each upstream is given is derived from it. */
  secret: Uint8Array
  newId(): string
  clock: Clock
  onOutcome(outcome: HeardOutcome, reading?: HeardReading): void
  onProblem(problem: string): void
}

export type HeardOutcome = 'heard' | 'duplicate' | 'challenge' | 'ignored' | 'refused'

export type Received = SignedDelivery & { token: string }

type Registration = EventsPlace & {
  teller: Teller
  nextAt: number
  failures: number
  problem?: string
  /** Ends when it has answered our latest request. */
  asked?: Promise<void>
}

/** Events that do not concern a feed are accepted all the same; an unknown type means that something changed. */
const isOfOurs = (type: unknown) => typeof type === 'string' && !/^(product|creative)\./.test(type)

export function createListener(options: ListenerOptions) {
  const { tellers, heard, account, keyOf, replay, publicUrl, secret, newId, clock } = options
  const { onOutcome, onProblem } = options
  const registrations = new Map<string, Registration>() // by the token in our url
  const byAgent = new Map<string, Registration>()
  const leaving = new Map<string, Promise<void>>() // by agent
  let cancel = () => {}
  let hasFollowed = false // before that, whose urls are ours is not known

  const receiveAt = createReceiver({
    ...{ keyOf, replay, now: clock.now },
    placeOf: (agentUrl) => byAgent.get(agentUrl),
  })

  /** Unguessable, and the same after a restart and at every process. */
  function tokenOf(agentUrl: string): string {
    return createHmac('sha256', secret).update(`feed-events ${agentUrl}`).digest('base64url')
  }

  /** Declares the whole set of our account. */
  async function declare(teller: Teller, configs: readonly object[], patienceMs: number) {
    const args = {
      idempotency_key: `feed-events-${newId()}`,
      accounts: [{ ...account(), billing: 'operator', notification_configs: configs }],
    }
    return await teller.syncAccounts(args, clock.now() + patienceMs).catch(String)
  }

  async function subscribe(registration: Registration): Promise<void> {
    const { teller, url, types, accountId: known } = registration
    registration.isAsking = true
    delete registration.accountId // it may have another account for us since: its answer says so
    const config = { subscriber_id: SUBSCRIBER, url, event_types: types, active: true }
    const answer = await declare(teller, [config], CALL_MS)
    registration.isAsking = false
    const entry = typeof answer === 'string' ? undefined : keptSubscription(answer, SUBSCRIBER)
    registration.failures = entry?.isActive ? 0 : registration.failures + 1
    const retryMs = doubledMs(registration.failures, FIRST_RETRY_MS, LONGEST_RETRY_MS)
    registration.nextAt = clock.now() + (entry?.isActive ? RENEW_MS : retryMs)
    const accountId = entry?.accountId ?? known
    if (accountId !== undefined) registration.accountId = accountId
    const problem = entry?.isActive ? undefined : typeof answer === 'string' ? answer : 'it did not accept us'
    if (problem && problem !== registration.problem) {
      onProblem(`${teller.id} does not tell us of changes, it is read on schedule: ${problem}`)
    }
    registration.problem = problem ?? ''
  }

  /** Tried once: an agent that cannot be reached now gets 410 for its next event. */
  async function unsubscribe(registration: Registration): Promise<void> {
    await registration.asked // unsubscribing has to be the last request
    const { teller, accountId } = registration
    if (accountId === undefined) return
    const answer = await declare(teller, [], FAREWELL_MS)
    if (typeof answer !== 'string' && keptSubscription(answer, SUBSCRIBER)) return
    onProblem(
      `${teller.id} has left and could not be told so: ${typeof answer === 'string' ? answer : 'it refused'}`,
    )
  }

  /** Subscribes where it is time to, and unsubscribes where an upstream has left: it is not listened to any more. */
  function follow(): void {
    const wanted = tellers()
    for (const [token, registration] of registrations) {
      const { agentUrl } = registration.teller
      if (wanted.has(agentUrl)) continue
      registrations.delete(token)
      byAgent.delete(agentUrl)
      const farewell = unsubscribe(registration).finally(() => leaving.delete(agentUrl))
      leaving.set(agentUrl, farewell)
    }
    for (const teller of wanted.values()) {
      if (!teller || leaving.has(teller.agentUrl)) continue
      const token = tokenOf(teller.agentUrl)
      const types = FEED_EVENTS.filter((type) => teller.types.includes(type))
      const known = registrations.get(token)
      if (types.length === 0) continue
      const url = `${publicUrl}/events/${token}`
      const registration: Registration = known ?? {
        ...{ teller, sender: teller, url, types, subscriberId: SUBSCRIBER },
        ...{ isAsking: false, nextAt: 0, failures: 0 },
      }
      Object.assign(registration, { teller, sender: teller, types })
      registrations.set(token, registration)
      byAgent.set(teller.agentUrl, registration)
      if (registration.isAsking || clock.now() < registration.nextAt) continue
      registration.asked = subscribe(registration)
    }
    hasFollowed = true
  }

  function look(): void {
    follow()
    cancel = clock.after(LOOK_EVERY_MS, look)
  }

  /** The answer to a POST to one of our urls. An unknown token costs one lookup, a forged event one verification. */
  async function receive({ token, ...delivery }: Received): Promise<ReceiverReply> {
    const registration = registrations.get(token)
    if (!registration) return { status: hasFollowed ? 410 : 503 } // gone: the sender may stop
    const receipt = await receiveAt(registration, delivery)
    if (receipt.kind !== 'event') onOutcome(receipt.kind)
    else if (isOfOurs(receipt.event.notification_type))
      onOutcome('heard', heard(registration.teller.agentUrl))
    else onOutcome('ignored')
    return receipt.reply
  }

  return {
    start: look,
    receive,
    async close(): Promise<void> {
      cancel()
      await Promise.all([...registrations.values()].map(({ asked }) => asked))
      await Promise.all(leaving.values())
    },
  }
}

export type Listener = ReturnType<typeof createListener>
