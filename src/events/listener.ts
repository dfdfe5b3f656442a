/**
 * Hears of changes from upstreams that tell them: subscribes where that is declared, proves our url, and turns what is told into
 * an early read of that upstream. Nothing of an event is believed but that something changed: rows are read, verified and
 * merged as ever, and an event that is lost costs no more than the wait for the next reading on schedule.
 */
import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../adcp/json.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Clock } from '../net/clock.js'
import type { SignedMessage } from '../signing/base.js'
import { WEBHOOKS } from '../signing/profile.js'
import type { ReplayGuard } from '../signing/replay.js'
import { createVerifier, type KeyAnswer } from '../signing/verify.js'
import { FEED_EVENTS } from './feed-event.js'
import type { Sender } from './sender-keys.js'

const LOOK_EVERY_MS = 1_000
const RENEW_MS = 3_600_000
const [FIRST_RETRY_MS, LONGEST_RETRY_MS] = [5_000, 5 * 60_000]
const CALL_MS = 60_000
const MOST_REMEMBERED = 100_000
const SUBSCRIBER = 'tributary'

/** An upstream that tells what changes. */
export type Teller = Sender & { id: string; types: readonly string[] }

type ListenerOptions = {
  /** Upstreams that declare feed webhooks, as they are known now. */
  tellers(): readonly Teller[]
  /** Calls `sync_accounts` of an upstream; its answer, or why there is none. */
  syncAccounts(id: string, args: object, deadline: number): Promise<Record<string, unknown> | string>
  /** Reads an upstream (canonical url) soon; by how many ms sooner than it would have been. */
  heard(agentUrl: string): number
  /** Ours, where we are one more of its buyers. */
  account(): object
  keyOf(sender: Sender, keyid: string): Promise<KeyAnswer>
  replay: ReplayGuard
  /** Where upstreams reach us. */
  publicUrl: string
  /** Names of our places at each upstream follow from it. */
  secret: Uint8Array
  newId(): string
  clock: Clock
  onOutcome(outcome: HeardOutcome, gainedMs?: number): void
  onProblem(problem: string): void
}

export type HeardOutcome = 'heard' | 'duplicate' | 'challenge' | 'ignored' | 'refused'

export type Received = Pick<SignedMessage, 'headers' | 'body'> & { token: string }
export type ListenerReply = { status: number; headers?: Record<string, string>; body?: object }

type Registration = {
  teller: Teller
  url: string
  types: readonly string[]
  /** A request of ours is under way: now a challenge may come. */
  isAsking: boolean
  /** Theirs, once they have said it. */
  accountId?: string
  nextAt: number
  failures: number
  problem?: string
}

function refused(code: string): ListenerReply {
  return { status: 401, headers: { 'www-authenticate': `Signature error="${code}"` } }
}

const sameSet = (a: readonly unknown[], b: readonly unknown[]) =>
  a.length === b.length && a.every((one) => b.includes(one))

/** Our entry in what the upstream says it keeps. */
function entryIn(answer: Record<string, unknown>): { accountId: string; isActive: boolean } | undefined {
  const [row] = Array.isArray(answer.accounts) ? answer.accounts.filter(isRecord) : []
  if (!row || row.action === 'failed' || typeof row.account_id !== 'string') return undefined
  const configs = Array.isArray(row.notification_configs) ? row.notification_configs.filter(isRecord) : []
  const own = configs.find(({ subscriber_id }) => subscriber_id === SUBSCRIBER)
  return { accountId: row.account_id, isActive: own !== undefined && own.active !== false }
}

export function createListener(options: ListenerOptions) {
  const { tellers, syncAccounts, heard, account, keyOf, replay, publicUrl, secret, newId, clock } = options
  const { onOutcome, onProblem } = options
  const registrations = new Map<string, Registration>() // by the token of our place
  const byAgent = new Map<string, Registration>()
  const taken = new LRUCache<string, true>({ max: MOST_REMEMBERED })
  let cancel = () => {}
  let isOpen = false
  const asking = new Set<Promise<void>>()

  const verify = createVerifier({
    ...{ profile: WEBHOOKS, replay, now: clock.now },
    keyOf(keyid, owner = '') {
      const registration = byAgent.get(owner)
      return registration ? keyOf(registration.teller, keyid) : 'unknown'
    },
  })

  /** Unguessable, and the same after a restart and at every process. */
  function tokenOf(agentUrl: string): string {
    return createHmac('sha256', secret).update(`feed-events ${agentUrl}`).digest('base64url')
  }

  async function subscribe(registration: Registration): Promise<void> {
    const { teller, url, types } = registration
    registration.isAsking = true
    const config = { subscriber_id: SUBSCRIBER, url, event_types: types, active: true }
    const args = {
      idempotency_key: `feed-events-${newId()}`,
      accounts: [{ ...account(), billing: 'operator', notification_configs: [config] }],
    }
    const answer = await syncAccounts(teller.id, args, clock.now() + CALL_MS).catch(String)
    registration.isAsking = false
    const entry = typeof answer === 'string' ? undefined : entryIn(answer)
    registration.failures = entry?.isActive ? 0 : registration.failures + 1
    const retryMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(registration.failures - 1, 10))
    registration.nextAt = clock.now() + (entry?.isActive ? RENEW_MS : retryMs)
    if (entry) registration.accountId = entry.accountId
    const problem = entry?.isActive ? undefined : typeof answer === 'string' ? answer : 'it did not accept us'
    if (problem && problem !== registration.problem) {
      onProblem(`${teller.id} does not tell us of changes, it is read on schedule: ${problem}`)
    }
    registration.problem = problem ?? ''
  }

  /** Subscribes where it is time to; who has left is not listened to any more. */
  function follow(): void {
    const wanted = tellers()
    const agents = new Set(wanted.map(({ agentUrl }) => agentUrl))
    for (const [token, { teller }] of registrations) {
      if (agents.has(teller.agentUrl)) continue
      registrations.delete(token)
      byAgent.delete(teller.agentUrl)
    }
    for (const teller of wanted) {
      const token = tokenOf(teller.agentUrl)
      const types = FEED_EVENTS.filter((type) => teller.types.includes(type))
      const known = registrations.get(token)
      if (types.length === 0) continue
      const url = `${publicUrl}/events/${token}`
      const registration = known ?? { teller, url, types, isAsking: false, nextAt: 0, failures: 0 }
      Object.assign(registration, { teller, types })
      registrations.set(token, registration)
      byAgent.set(teller.agentUrl, registration)
      if (registration.isAsking || clock.now() < registration.nextAt) continue
      const asked = subscribe(registration).finally(() => asking.delete(asked))
      asking.add(asked)
    }
    isOpen = true
  }

  function look(): void {
    follow()
    cancel = clock.after(LOOK_EVERY_MS, look)
  }

  function proved(registration: Registration, body: Record<string, unknown>): ListenerReply {
    const { teller, types, accountId, isAsking } = registration
    const { challenge, seller_agent_url: seller, delivery_auth: auth, event_types: asked } = body
    const isExpected =
      isAsking &&
      typeof challenge === 'string' &&
      typeof seller === 'string' &&
      canonicalUrl(seller) === teller.agentUrl &&
      body.subscriber_id === SUBSCRIBER &&
      (accountId === undefined || body.account_id === accountId) &&
      isRecord(auth) &&
      auth.mode === 'rfc9421' &&
      Array.isArray(asked) &&
      sameSet(asked, types)
    onOutcome(isExpected ? 'challenge' : 'refused')
    return isExpected ? { status: 200, body: { challenge } } : { status: 403 }
  }

  function told(registration: Registration, body: Record<string, unknown>): ListenerReply {
    const { teller, accountId } = registration
    const {
      idempotency_key: key,
      subscriber_id: subscriber,
      account_id: whose,
      notification_type: type,
    } = body
    if (
      subscriber !== SUBSCRIBER ||
      (accountId !== undefined && whose !== accountId) ||
      typeof key !== 'string'
    ) {
      onOutcome('refused')
      return { status: 403 }
    }
    const name = `${teller.agentUrl} ${key.slice(0, 255)}`
    if (taken.has(name)) {
      onOutcome('duplicate')
      return { status: 200 }
    }
    taken.set(name, true)
    // What is of no concern here is taken all the same; an unknown word means that something changed.
    const isOurs = typeof type === 'string' && !/^(product|creative)\./.test(type)
    const gained = isOurs ? heard(teller.agentUrl) : 0
    onOutcome(isOurs ? 'heard' : 'ignored', gained)
    return { status: 200 }
  }

  /** What is answered to a POST to one of our places. Strangers cost a look at a map, forgers a signature. */
  async function receive({ token, headers, body }: Received): Promise<ListenerReply> {
    const registration = registrations.get(token)
    if (!registration) return { status: isOpen ? 410 : 503 } // gone: whoever still sends here may stop
    const { teller, url } = registration
    const verified = await verify({ method: 'POST', url, headers, body }, teller.agentUrl)
    if (verified.kind === 'rejected') {
      onOutcome('refused')
      return refused(verified.code)
    }
    if (verified.kind === 'unsigned') {
      onOutcome('refused')
      const isLegacy = headers.authorization !== undefined || headers['x-adcp-signature'] !== undefined
      return refused(isLegacy ? 'webhook_mode_mismatch' : 'webhook_signature_required')
    }
    let said: unknown
    try {
      said = JSON.parse(Buffer.from(body).toString())
    } catch {
      said = undefined // signed, and yet no JSON
    }
    if (!isRecord(said)) return { status: 400 }
    return said.type === 'webhook.challenge' ? proved(registration, said) : told(registration, said)
  }

  return {
    start: look,
    receive,
    async close(): Promise<void> {
      cancel()
      await Promise.all(asking)
    },
  }
}

export type Listener = ReturnType<typeof createListener>
