/**
 * Receives an agent's reports of changes of its feed: verifies the signature, answers a proof of control while one is expected,
 * and recognises repeated events and events for another receiver (docs/protocol.md#feed-webhooks). The sender's keys are found from
 * its capabilities by its operator's brand.json (docs/protocol.md#signatures): only what its own domain says counts.
 */
import { getDomain } from 'tldts'
import { isRecord, tryParseJson } from '../adcp/json.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Send } from '../net/send.js'
import { createRecent } from '../process/memory.js'
import { createBuckets } from '../process/token-buckets.js'
import { createKeySets, type KeyAnswer } from '../signing/key.js'
import { type SignedMessage, WEBHOOKS } from '../signing/signature.js'
import { createVerifier, type ReplayGuard } from '../signing/verify.js'

const TIMEOUT_MS = 10_000
const MAX_BRAND_BYTES = 256 * 1_024
const MOST_KNOWN = 10_000
const BRAND_AGE_MS = 10 * 60_000
const COOLDOWN_MS = 30_000 // a sender whose brand.json cannot be read is not asked for it with each of its signatures
const DEFAULT_KEYS = '/.well-known/jwks.json'
const MOST_REMEMBERED = 100_000
const MOST_ADDRESSES = 10_000
/** Deliveries of one url that may be refused: of one address, more than an agent with a wrong key sends while it learns of it. */
const OF_ONE = { burst: 50, perSecond: 5 }
const OF_STRANGERS = { burst: 200, perSecond: 20 }

export type Sender = {
  /** Canonical. */
  agentUrl: string
  brandJsonUrl: string
}

/** Where a reading of brand.json leads: to keys, or to none. */
type Lead = { keysAt: string; keyOf: ReturnType<typeof createKeySets> } | 'unknown' | 'unavailable'
type Reading = { lead: Promise<Lead>; isDueAt: number }

const siteOf = (url: string) => getDomain(new URL(url).hostname) ?? new URL(url).hostname

/** Where the agent's keys are, as its operator's brand.json says; undefined when it names the agent not at all, or twice. */
function keysNamedIn(body: Uint8Array, agentUrl: string): string | undefined {
  const brand = tryParseJson(body)
  const agents = isRecord(brand) && Array.isArray(brand.agents) ? brand.agents.filter(isRecord) : []
  const own = agents.filter(({ url }) => typeof url === 'string' && canonicalUrl(url) === agentUrl)
  const [{ jwks_uri: named } = {}] = own
  if (own.length !== 1) return undefined
  return typeof named === 'string' ? named : new URL(DEFAULT_KEYS, agentUrl).href
}

/**
 * Gives the look-up of a key by its id. A reading of brand.json stands for a while, and only the last one counts: where it leads to
 * no keys, because it names the agent no more or cannot be read, none is believed.
 */
export function createSenderKeys({ send, now }: { send: Send; now(): number }) {
  const readings = createRecent<Reading>(MOST_KNOWN) // by canonical url and place of the brand.json

  async function leadOf({ agentUrl, brandJsonUrl }: Sender, last: Promise<Lead> | undefined): Promise<Lead> {
    if (!URL.canParse(brandJsonUrl)) return 'unavailable' // it is not known yet
    if (siteOf(brandJsonUrl) !== siteOf(agentUrl)) return 'unknown'
    const reply = await send({ url: brandJsonUrl, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BRAND_BYTES })
    if (reply.kind !== 'reply' || reply.status !== 200) return 'unavailable'
    const keysAt = keysNamedIn(reply.body, agentUrl)
    if (keysAt === undefined || !URL.canParse(keysAt)) return 'unknown'
    const before = await last
    if (typeof before === 'object' && before.keysAt === keysAt) return before
    return { keysAt, keyOf: createKeySets({ sources: [{ owner: agentUrl, url: keysAt }], send, now }) }
  }

  /** The one that stands; who comes while it is made waits for it. */
  function readingOf(sender: Sender): Reading {
    const name = `${sender.agentUrl} ${sender.brandJsonUrl}`
    const last = readings.get(name)
    if (last && now() < last.isDueAt) return last
    const reading: Reading = { lead: leadOf(sender, last?.lead), isDueAt: Number.POSITIVE_INFINITY }
    readings.set(name, reading)
    void reading.lead.then((lead) => {
      reading.isDueAt = now() + (typeof lead === 'string' ? COOLDOWN_MS : BRAND_AGE_MS)
    })
    return reading
  }

  /** The sender's key of this id. */
  return async (sender: Sender, keyid: string): Promise<KeyAnswer> => {
    const lead = await readingOf(sender).lead
    return typeof lead === 'string' ? lead : await lead.keyOf(keyid, sender.agentUrl)
  }
}

/**
 * Bounds the refused deliveries of each receiving url: from one address, and from all addresses that have sent nothing valid yet.
 * Beyond that, deliveries are refused before anything is verified, so that a flood of forgeries does not cost a verification
 * each. Accepted deliveries do not count.
 */
function createRefusedSenders(now: () => number) {
  const one = createBuckets(MOST_ADDRESSES)
  const strangers = createBuckets(MOST_ADDRESSES)
  const seen = createRecent<true>(MOST_ADDRESSES)

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
  /** Resolves when `placeOf` knows what other processes know of it. Absent when there are none. */
  upToDate?(): Promise<unknown>
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

/** Whether `named` is a list of exactly these events, in any order. */
export function isSameEvents(events: readonly string[], named: unknown): boolean {
  return Array.isArray(named) && named.length === events.length && events.every((one) => named.includes(one))
}

/** Whether it names our subscription, and our account where the agent has said how it calls it. */
function isOurs(place: EventsPlace, body: Readonly<Record<string, unknown>>): boolean {
  const { subscriber_id: subscriber, account_id: account } = body
  return subscriber === place.subscriberId && (place.accountId === undefined || account === place.accountId)
}

/** Whether the challenge is for exactly what this place has just asked for (schema core/webhook-challenge). */
function isExpected(place: EventsPlace, body: Readonly<Record<string, unknown>>): boolean {
  const { challenge, seller_agent_url: seller, delivery_auth: auth, event_types: asked } = body
  return (
    place.isAsking &&
    typeof challenge === 'string' &&
    typeof seller === 'string' &&
    canonicalUrl(seller) === place.sender.agentUrl &&
    isOurs(place, body) &&
    isRecord(auth) &&
    auth.mode === 'rfc9421' &&
    isSameEvents(place.types, asked)
  )
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

/** Receives for all urls of one process. Nothing of a message is read before its signature is verified. */
export function createReceiver({ placeOf, upToDate, keyOf, replay, now }: ReceiverOptions) {
  const taken = createRecent<true>(MOST_REMEMBERED)
  const refused = createRefusedSenders(now)
  const verify = createVerifier({
    ...{ profile: WEBHOOKS, replay, now },
    keyOf(keyid, owner = '') {
      const place = placeOf(owner)
      return place ? keyOf(place.sender, keyid) : 'unknown'
    },
  })

  /** Undefined where it is not for us, as far as this process knows. */
  function receiptOf(place: EventsPlace, body: Readonly<Record<string, unknown>>): Receipt | undefined {
    const { idempotency_key: key, challenge } = body
    if (body.type === 'webhook.challenge') {
      if (!isExpected(place, body)) return undefined
      return { kind: 'challenge', reply: { status: 200, body: { challenge } } }
    }
    if (!isOurs(place, body) || typeof key !== 'string') return undefined
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
    const said = tryParseJson(body)
    if (!isRecord(said)) return { kind: 'refused', reply: { status: 400 } }
    const receipt = receiptOf(place, said)
    if (receipt || !upToDate) return receipt ?? FORBIDDEN
    await upToDate() // another process may just have asked, or been told of another account
    const latest = placeOf(place.sender.agentUrl)
    return (latest && receiptOf(latest, said)) ?? FORBIDDEN
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
