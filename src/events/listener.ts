/**
 * Listens to upstreams that declare feed events: subscribes, proves our url, and reads an upstream early when it reports a change;
 * unsubscribes where the upstream has left the roster. An event is believed only in that something changed: rows are read,
 * verified and merged as always, and an event that is lost costs no more than the wait for the next scheduled reading.
 */
import { createHmac } from 'node:crypto'
import { FEED_EVENTS } from '../adcp/signal.js'
import { type Clock, doubledMs, jittered } from '../net/clock.js'
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
import type { Registrations } from './registrations.js'

const LOOK_EVERY_MS = 1_000
const RENEW_MS = 3_600_000
/** A subscription that no process has renewed for so long is nobody's. */
const LAPSED_MS = 2 * RENEW_MS
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
   * Every upstream of the roster, by its canonical url: as one at which this process has to subscribe, as one that declares no
   * feed webhooks, or as one that another process reads, or none does; undefined while it is not known here what it declares.
   */
  tellers(): ReadonlyMap<string, Teller | 'mute' | 'elsewhere' | undefined>
  /** Whether no live process runs a newer configuration, which may name upstreams that this one's does not. */
  isNewest(): boolean
  /** Whether no registry is left that may list others. */
  isRosterKnown(): boolean
  registrations: Registrations
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
  /** From 0 to 1, for jitter. */
  random(): number
  onOutcome(outcome: HeardOutcome, reading?: HeardReading): void
  onProblem(problem: string): void
}

export type HeardOutcome = 'heard' | 'duplicate' | 'challenge' | 'ignored' | 'refused'

export type Received = SignedDelivery & { token: string }

/** A subscription that is this process's to keep, as long as it reads the upstream. */
type Duty = {
  teller: Teller
  types: readonly string[]
  isAsking: boolean
  nextAt: number
  failures: number
  accountId?: string
  problem?: string
  /** Ends when it has answered our latest request. */
  asked?: Promise<void>
}

/** Events that do not concern a feed are accepted all the same; an unknown type means that something changed. */
const isOfOurs = (type: unknown) => typeof type === 'string' && !/^(product|creative)\./.test(type)

export function createListener(options: ListenerOptions) {
  const { tellers, isNewest, isRosterKnown, registrations, heard, account, keyOf, replay } = options
  const { publicUrl, secret, newId, clock, random, onOutcome, onProblem } = options
  const duties = new Map<string, Duty>() // by the token in our url
  const leaving = new Map<string, Promise<void>>() // by agent
  let tokens: ReadonlyMap<string, string> = new Map() // of the roster, by agent
  let agents: ReadonlyMap<string, string> | undefined // the same the other way; before the first look it is not known
  let cancel = () => {}

  const receiveAt = createReceiver({
    ...{ keyOf, replay, now: clock.now, placeOf },
    upToDate: registrations.heard,
  })

  /** Unguessable, and the same after a restart and at every process. */
  function tokenOf(agentUrl: string): string {
    return createHmac('sha256', secret).update(`feed-events ${agentUrl}`).digest('base64url')
  }

  const urlOf = (token: string) => `${publicUrl}/events/${token}`

  /** Where an upstream of the roster sends; undefined while nobody has subscribed there. */
  function placeOf(agentUrl: string): EventsPlace | undefined {
    const token = tokens.get(agentUrl) ?? ''
    const registration = registrations.of(token)
    if (!registration) return undefined
    const { brandJsonUrl, types, isAsking, accountId, toldAt } = registration
    return {
      ...{ sender: { agentUrl, brandJsonUrl }, url: urlOf(token), subscriberId: SUBSCRIBER, types },
      isAsking: isAsking && clock.now() - toldAt < CALL_MS, // whoever asked may have ended since
      ...(accountId !== undefined && { accountId }),
    }
  }

  /** Declares the whole set of our account. */
  async function declare(teller: Teller, configs: readonly object[], patienceMs: number) {
    const args = {
      idempotency_key: `feed-events-${newId()}`,
      accounts: [{ ...account(), billing: 'operator', notification_configs: configs }],
    }
    return await teller.syncAccounts(args, clock.now() + patienceMs).catch(String)
  }

  async function subscribe(token: string, duty: Duty): Promise<void> {
    const { teller, types } = duty
    duty.isAsking = true
    const known = registrations.of(token)?.accountId
    const { brandJsonUrl } = teller
    const asking = { brandJsonUrl, types, isAsking: true } // without an account: its answer says which it has for us now
    await registrations.tell(token, asking)
    const config = { subscriber_id: SUBSCRIBER, url: urlOf(token), event_types: types, active: true }
    const answer = await declare(teller, [config], CALL_MS)
    duty.isAsking = false
    const entry = typeof answer === 'string' ? undefined : keptSubscription(answer, SUBSCRIBER)
    duty.failures = entry?.isActive ? 0 : duty.failures + 1
    const retryMs = doubledMs(duty.failures, FIRST_RETRY_MS, LONGEST_RETRY_MS)
    // At other times than other processes: an upstream that all of them ask at one moment may refuse all of them again.
    duty.nextAt = clock.now() + (entry?.isActive ? RENEW_MS : jittered(retryMs, random))
    const accountId = entry?.accountId ?? known
    if (accountId !== undefined) duty.accountId = accountId
    const problem = entry?.isActive ? undefined : typeof answer === 'string' ? answer : 'it did not accept us'
    if (problem && problem !== duty.problem) {
      onProblem(`${teller.id} does not tell us of changes, it is read on schedule: ${problem}`)
    }
    duty.problem = problem ?? ''
    if (duties.get(token) !== duty) return // it has left meanwhile
    await registrations.tell(token, {
      ...{ ...asking, isAsking: false },
      ...(accountId !== undefined && { accountId }),
    })
  }

  /** Tried once: an agent that cannot be reached now gets 410 for its next event. */
  async function unsubscribe(token: string, duty: Duty): Promise<void> {
    await registrations.tell(token, null)
    await duty.asked // unsubscribing has to be the last request
    const { teller, accountId } = duty
    if (accountId === undefined) return
    const answer = await declare(teller, [], FAREWELL_MS)
    // Another process may have subscribed before the list was emptied: it has to again.
    if (registrations.of(token)) await registrations.tell(token, null)
    if (typeof answer !== 'string' && keptSubscription(answer, SUBSCRIBER)) return
    onProblem(
      `${teller.id} has left and could not be told so: ${typeof answer === 'string' ? answer : 'it refused'}`,
    )
  }

  /**
   * Lets go of what is not this process's to keep any more, and unsubscribes where an upstream has left: it is not listened to any
   * more. What another process reads is that one's to keep, or to leave.
   */
  function letGo(wanted: ReturnType<typeof tellers>): void {
    for (const [token, duty] of duties) {
      const { agentUrl } = duty.teller
      const is = wanted.get(agentUrl)
      if (wanted.has(agentUrl) && is !== 'mute' && is !== 'elsewhere') continue
      duties.delete(token)
      if (is === 'elsewhere' || !isNewest()) continue
      const farewell = unsubscribe(token, duty).finally(() => leaving.delete(agentUrl))
      leaving.set(agentUrl, farewell)
    }
  }

  /** Whether it is time to subscribe, or to subscribe again: also where another process has emptied the list since. */
  const isDue = (token: string, { isAsking, nextAt }: Duty) =>
    !isAsking && (clock.now() >= nextAt || !registrations.of(token))

  /** Subscribes where it is time to, and leaves where it is not this process's to subscribe any more. */
  function follow(): void {
    const wanted = tellers()
    tokens = new Map(
      [...wanted.keys()].map((agentUrl) => [agentUrl, tokens.get(agentUrl) ?? tokenOf(agentUrl)]),
    )
    agents = new Map([...tokens].map(([agentUrl, token]) => [token, agentUrl]))
    letGo(wanted)
    for (const [agentUrl, token] of tokens) {
      const teller = wanted.get(agentUrl)
      if (typeof teller !== 'object' || leaving.has(agentUrl)) continue
      const types = FEED_EVENTS.filter((type) => teller.types.includes(type))
      if (types.length === 0) continue
      const known = duties.get(token)
      const duty: Duty = known ?? { teller, types, isAsking: false, nextAt: 0, failures: 0 }
      Object.assign(duty, { teller, types })
      duties.set(token, duty)
      if (isDue(token, duty)) duty.asked = subscribe(token, duty)
    }
  }

  function look(): void {
    follow()
    cancel = clock.after(LOOK_EVERY_MS, look)
  }

  const agentAt = (token: string) => agents?.get(token)

  /**
   * Whether nobody wants what comes there. An upstream that others subscribe at may not be in the roster here yet, or be in a
   * newer configuration.
   */
  function isGone(token: string): boolean {
    const toldAt = registrations.of(token)?.toldAt ?? Number.NEGATIVE_INFINITY
    return agents !== undefined && !agents.has(token) && isRosterKnown() && clock.now() - toldAt >= LAPSED_MS
  }

  /**
   * The answer to a POST to one of our urls. What comes to unknown ones costs one question to the storage at a time, however many
   * wait for it; a forged event costs one verification.
   */
  async function receive({ token, ...delivery }: Received): Promise<ReceiverReply> {
    const placeNow = () => placeOf(agentAt(token) ?? '')
    const isUpToDate = placeNow() !== undefined || (await registrations.heard())
    const place = placeNow()
    if (!place) return { status: isUpToDate && isGone(token) ? 410 : 503 } // gone: the sender may stop
    const receipt = await receiveAt(place, delivery)
    if (receipt.kind !== 'event') onOutcome(receipt.kind)
    else if (isOfOurs(receipt.event.notification_type)) onOutcome('heard', heard(place.sender.agentUrl))
    else onOutcome('ignored')
    return receipt.reply
  }

  return {
    start: look,
    receive,
    async close(): Promise<void> {
      cancel()
      await Promise.all([...duties.values()].map(({ asked }) => asked))
      await Promise.all(leaving.values())
    },
  }
}

export type Listener = ReturnType<typeof createListener>
