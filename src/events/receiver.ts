/**
 * Receives an agent's reports of changes of its feed: verifies the signature, answers a proof of control while one is expected,
 * and recognises repeated events and events for another receiver (docs/protocol.md#feed-webhooks).
 */

import { isRecord } from '../adcp/json.js'
import { canonicalUrl } from '../adcp/url.js'
import { createRecent } from '../memory/recent.js'
import { createBuckets } from '../net/buckets.js'
import type { SignedMessage } from '../signing/base.js'
import type { KeyAnswer } from '../signing/key.js'
import { WEBHOOKS } from '../signing/profile.js'
import type { ReplayGuard } from '../signing/replay.js'
import { createVerifier } from '../signing/verify.js'
import type { Sender } from './sender-keys.js'

const OF_ONE = { burst: 50, perSecond: 5 } // more than an agent with a wrong key sends while it learns of it
const OF_STRANGERS = { burst: 200, perSecond: 20 }
const MOST_SENDERS = 10_000

/**
 * Bounds the refused deliveries of each receiving url: from one address, and from all addresses that have sent nothing valid yet.
 * Beyond that, deliveries are refused before anything is verified, so that a flood of forgeries does not cost a verification
 * each. Accepted deliveries do not count.
 */
function createRefusedSenders(now: () => number) {
  const one = createBuckets(MOST_SENDERS)
  const strangers = createBuckets(MOST_SENDERS)
  const seen = createRecent<true>(MOST_SENDERS)

  return {
    /**
     * Takes room for one delivery before it is looked at; seconds to wait where there is none. `giveBack` when it was not
     * refused: who sent it is no stranger at this place from then on.
     */
    take(place: string, from: string): { seconds: number; giveBack(): void } {
      const name = `${place} ${from}`
      const isStranger = !seen.has(name)
      const seconds = Math.max(
        one.wait(name, OF_ONE, now()),
        isStranger ? strangers.wait(place, OF_STRANGERS, now()) : 0,
      )
      if (seconds > 0) return { seconds, giveBack() {} }
      one.add(name, -1, OF_ONE, now())
      if (isStranger) strangers.add(place, -1, OF_STRANGERS, now())
      return {
        seconds,
        giveBack() {
          seen.set(name, true)
          one.add(name, 1, OF_ONE, now())
          if (isStranger) strangers.add(place, 1, OF_STRANGERS, now())
        },
      }
    },
  }
}

const MOST_REMEMBERED = 100_000

/** What is known of one subscription at one agent. */
export type EventsPlace = {
  sender: Sender
  /** As the agent was told it: signatures cover it. */
  url: string
  subscriberId: string
  /** The events that were asked for. */
  types: readonly string[]
  /** A subscribing request is under way: a challenge may come now. */
  isAsking: boolean
  /** The agent's name of the account, once it has given it. */
  accountId?: string
}

export type SignedDelivery = Pick<SignedMessage, 'headers' | 'body'> & {
  /** The address that it came from. */
  from: string
}
export type ReceiverReply = { status: number; headers?: Record<string, string>; body?: object }

type Receipt =
  | { kind: 'refused' | 'challenge' | 'duplicate'; reply: ReceiverReply }
  /** The first delivery of this event. Its content is what the agent claims. */
  | { kind: 'event'; reply: ReceiverReply; event: Readonly<Record<string, unknown>> }

type ReceiverOptions = {
  /** The place of an agent, by its canonical url. */
  placeOf(agentUrl: string): EventsPlace | undefined
  keyOf(sender: Sender, keyid: string): Promise<KeyAnswer>
  replay: ReplayGuard
  now(): number
}

const TAKEN: ReceiverReply = { status: 200 }
const FORBIDDEN: Receipt = { kind: 'refused', reply: { status: 403 } }

function unverified(code: string): Receipt {
  const headers = { 'www-authenticate': `Signature error="${code}"` }
  return { kind: 'refused', reply: { status: 401, headers } }
}

const sameSet = (a: readonly unknown[], b: readonly unknown[]) =>
  a.length === b.length && a.every((one) => b.includes(one))

/** Whether the challenge is for exactly what this place has just asked for (schema core/webhook-challenge). */
function isExpected(place: EventsPlace, body: Readonly<Record<string, unknown>>): boolean {
  const { challenge, seller_agent_url: seller, delivery_auth: auth, event_types: asked } = body
  return (
    place.isAsking &&
    typeof challenge === 'string' &&
    typeof seller === 'string' &&
    canonicalUrl(seller) === place.sender.agentUrl &&
    body.subscriber_id === place.subscriberId &&
    (place.accountId === undefined || body.account_id === place.accountId) &&
    isRecord(auth) &&
    auth.mode === 'rfc9421' &&
    Array.isArray(asked) &&
    sameSet(asked, place.types)
  )
}

/** Receives for all urls of one process. Nothing of a message is read before its signature is verified. */
export function createReceiver({ placeOf, keyOf, replay, now }: ReceiverOptions) {
  const taken = createRecent<true>(MOST_REMEMBERED)
  const refused = createRefusedSenders(now)
  const verify = createVerifier({
    ...{ profile: WEBHOOKS, replay, now },
    keyOf(keyid, owner = '') {
      const place = placeOf(owner)
      return place ? keyOf(place.sender, keyid) : 'unknown'
    },
  })

  function eventOf(place: EventsPlace, body: Readonly<Record<string, unknown>>): Receipt {
    const { idempotency_key: key, subscriber_id: subscriber, account_id: account } = body
    const isOurs = place.accountId === undefined || account === place.accountId
    if (subscriber !== place.subscriberId || !isOurs || typeof key !== 'string') return FORBIDDEN
    const name = `${place.sender.agentUrl} ${key.slice(0, 255)}`
    if (taken.has(name)) return { kind: 'duplicate', reply: TAKEN }
    taken.set(name, true)
    return { kind: 'event', reply: TAKEN, event: body }
  }

  async function read(place: EventsPlace, { headers, body }: SignedDelivery): Promise<Receipt> {
    const message = { method: 'POST', url: place.url, headers, body }
    const verified = await verify(message, place.sender.agentUrl)
    if (verified.kind === 'rejected') return unverified(verified.code)
    if (verified.kind === 'unsigned') {
      const isLegacy = headers.authorization !== undefined || headers['x-adcp-signature'] !== undefined
      return unverified(isLegacy ? 'webhook_mode_mismatch' : 'webhook_signature_required')
    }
    let said: unknown
    try {
      said = JSON.parse(Buffer.from(body).toString())
    } catch {
      said = undefined // signed, and yet no JSON
    }
    if (!isRecord(said)) return { kind: 'refused', reply: { status: 400 } }
    if (said.type !== 'webhook.challenge') return eventOf(place, said)
    if (!isExpected(place, said)) return FORBIDDEN
    return { kind: 'challenge', reply: { status: 200, body: { challenge: said.challenge } } }
  }

  return async (place: EventsPlace, delivery: SignedDelivery): Promise<Receipt> => {
    const { seconds, giveBack } = refused.take(place.url, delivery.from)
    if (seconds > 0) {
      return { kind: 'refused', reply: { status: 429, headers: { 'retry-after': String(seconds) } } }
    }
    const receipt = await read(place, delivery)
    if (receipt.kind !== 'refused') giveBack()
    return receipt
  }
}

/** What an agent says it keeps, in the row that answers `sync_accounts`. */
type KeptSubscription = {
  accountId: string
  isActive: boolean
  own: Readonly<Record<string, unknown>> | undefined
  /** The other subscriptions of the account. */
  others: readonly Readonly<Record<string, unknown>>[]
}

/** Undefined where the agent did not accept the row. */
export function keptSubscription(
  answer: Readonly<Record<string, unknown>>,
  subscriberId: string,
): KeptSubscription | undefined {
  const [row] = Array.isArray(answer.accounts) ? answer.accounts.filter(isRecord) : []
  if (!row || row.action === 'failed' || typeof row.account_id !== 'string') return undefined
  const configs = Array.isArray(row.notification_configs) ? row.notification_configs.filter(isRecord) : []
  const own = configs.find(({ subscriber_id }) => subscriber_id === subscriberId)
  const others = configs.filter((one) => one !== own)
  return { accountId: row.account_id, isActive: own !== undefined && own.active !== false, own, others }
}
