/**
 * Subscriptions to the feed's changes, from the request that names a url to the job that sends events there. The url is asked
 * first, outside of any transaction, whether it wants them (schema core/webhook-challenge): otherwise any caller could have us send
 * to any url. The challenge is always signed, whatever later deliveries are authenticated with. What the url agreed to is stored
 * with the account.
 */
import { hash, randomBytes } from 'node:crypto'
import pLimit from 'p-limit'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { StoredSubscription } from '../store/records/accounts.js'
import type { Repositories, Store } from '../store/store.js'
import type { Post } from './letter.js'
import type { ConfigRules, NotificationConfig, NotificationProblem } from './notification-config.js'
import type { Eyes, Standings, ToldVersions } from './standings.js'
import { subscriptionJob } from './stream.js'

const CHALLENGE_MS = 10_000
const MAX_REPLY_BYTES = 4 * 1_024
const CHALLENGE_BYTES = 32
const TRIES = 2 // a connection that broke is tried once more
/** Active subscriptions of one caller, over all its accounts. */
const MOST_ACTIVE = 100
const CHALLENGES_AT_ONCE = 16
/** Challenges that one caller can have us send, bounded because the caller alone chooses where they go. */
const [MOST_CHALLENGES, WITHIN_MS] = [200, 60_000]

/** What one proof covers: any other tuple needs a proof of its own. */
export type Claim = {
  accountId: string
  subscriberId: string
  url: string
  eventTypes: readonly string[]
  authentication?: { schemes: readonly string[]; credentials?: string }
}

type ChallengeOptions = {
  post: Post
  now(): number
  /** The url of the agent whose key signs. */
  agentUrl(): string
}

function deliveryAuth({ authentication }: Claim) {
  if (!authentication) return { mode: 'rfc9421' }
  const fingerprint = hash('sha256', authentication.credentials ?? '')
  return { mode: authentication.schemes[0], credential_fingerprint: fingerprint }
}

function echoes(body: Uint8Array, challenge: string): boolean {
  const said = tryParseJson(body)
  if (!isRecord(said)) return false // whatever answered does not know what it was asked
  const given = [said.challenge, said.token].filter((value) => value !== undefined)
  return given.length === 1 && given[0] === challenge
}

/** Undefined when the url answered as it must; else what it did instead. */
export function createChallenge({ post, now, agentUrl }: ChallengeOptions) {
  return async (caller: string, claim: Claim): Promise<string | undefined> => {
    const challenge = randomBytes(CHALLENGE_BYTES).toString('base64url')
    const body = JSON.stringify({
      type: 'webhook.challenge',
      challenge,
      account_id: claim.accountId,
      subscriber_id: claim.subscriberId,
      seller_agent_url: agentUrl(),
      delivery_auth: deliveryAuth(claim),
      event_types: claim.eventTypes,
    })
    for (let tries = 1; ; tries += 1) {
      const outcome = await post({
        caller,
        url: claim.url,
        body,
        signedAt: now(),
        timeoutMs: CHALLENGE_MS,
        maxBytes: MAX_REPLY_BYTES,
      })
      if (outcome.kind === 'failed') {
        if (outcome.reason === 'unreachable' && tries < TRIES) continue
        return outcome.reason === 'refused'
          ? 'this agent may not send there'
          : `it did not answer (${outcome.reason})`
      }
      const { status } = outcome
      if (status < 200 || status > 299) return `it answered with status ${status}`
      return echoes(outcome.body, challenge) ? undefined : 'it did not give the challenge back'
    }
  }
}

type Challenge = ReturnType<typeof createChallenge>

/** What an account's subscriptions are to be. */
export type WantedSubscriptions = { accountId: string; configs: readonly NotificationConfig[] }

/** What was proved for one request. */
export type Proofs = {
  problemOf(wanted: WantedSubscriptions): NotificationProblem | undefined
  /** Where a new subscriber's feed stood when its url was challenged. */
  versions: ReadonlyMap<string, ToldVersions | undefined>
}

type SubscriptionsOptions = {
  store: Pick<Store, 'subscriptions'>
  newId(): string
  /** Where webhooks may go now. */
  policy(): ConfigRules['policy']
  /** Absent where nothing is delivered: then no subscription is active. */
  delivering?: {
    challenge: Challenge
    now(): number
    standings: Pick<Standings, 'current'>
    eyesOf(caller: string, account: string): Eyes | undefined
    /** Told when subscriptions may have been made. */
    onSubscribed(): void
  }
}

type Subscriptions = Pick<Repositories, 'subscriptions' | 'jobs'>

const isActive = ({ active }: NotificationConfig) => active !== false

function claimOf(accountId: string, config: NotificationConfig): Claim {
  const { subscriber_id, url, event_types, authentication } = config
  return {
    accountId,
    subscriberId: subscriber_id as string,
    url: url as string,
    eventTypes: [...(event_types as string[])].sort(),
    ...(authentication !== undefined && { authentication: authentication as Claim['authentication'] & {} }),
  }
}

/** Equal for claims that one proof covers. */
function nameOf({ accountId, subscriberId, url, eventTypes, authentication }: Claim): string {
  const { schemes = [], credentials = '' } = authentication ?? {}
  return JSON.stringify([accountId, subscriberId, url, eventTypes, schemes[0] ?? '', credentials])
}

const nameOfStored = ({ accountId, subscriberId, config }: StoredSubscription) =>
  nameOf(claimOf(accountId, { ...config, subscriber_id: subscriberId }))

function isProved(stored: readonly StoredSubscription[], claim: Claim): boolean {
  return stored.some((one) => !one.suspended && nameOfStored(one) === nameOf(claim))
}

function tooMany(index: number): NotificationProblem {
  return {
    ...{ code: 'INVALID_REQUEST', path: `notification_configs[${index}].active` },
    message: `You may have ${MOST_ACTIVE} active subscriptions over all your accounts.`,
    suggestion: 'Pause or remove some first: one subscription of an account tells all of its feed.',
  }
}

/**
 * Compares one account's set after the other with the bound, counting what is already `stored` of the caller. Asked inside the
 * transaction that writes them: a request that was counted before may have been written meanwhile.
 */
export function boundedSubscriptions(stored: readonly StoredSubscription[]) {
  const counts = new Map<string, number>()
  for (const { accountId, suspended } of stored) {
    if (!suspended) counts.set(accountId, (counts.get(accountId) ?? 0) + 1)
  }
  return ({ accountId, configs }: WantedSubscriptions): NotificationProblem | undefined => {
    const before = counts.get(accountId) ?? 0
    const others = [...counts.values()].reduce((sum, count) => sum + count, -before)
    const wanted = configs.flatMap((config, index) => (isActive(config) ? [index] : []))
    const first = wanted[Math.max(0, MOST_ACTIVE - others)]
    if (first !== undefined && wanted.length > before) return tooMany(first)
    counts.set(accountId, wanted.length)
    return undefined
  }
}

/** For requests that make nothing active. */
export const NOTHING_ASKED: Proofs = {
  problemOf({ configs }) {
    const index = configs.findIndex(isActive)
    if (index < 0) return undefined
    return {
      ...{ code: 'VALIDATION_ERROR', path: `notification_configs[${index}].url` },
      message: 'The url was not asked whether it wants these webhooks.',
      suggestion: 'Repeat the request with a new idempotency_key.',
    }
  },
  versions: new Map(),
}

export function createSubscriptions({ store, newId, policy, delivering }: SubscriptionsOptions) {
  const sent = new Map<string, number[]>() // when each caller's latest challenges were sent, ms

  /** How many challenges a caller may have us send now. */
  function room(caller: string, at: number): number {
    for (const [each, times] of sent) {
      const recent = times.filter((time) => time > at - WITHIN_MS)
      if (recent.length > 0) sent.set(each, recent)
      else sent.delete(each)
    }
    return MOST_CHALLENGES - (sent.get(caller)?.length ?? 0)
  }

  const rules = (): ConfigRules => ({ delivers: delivering !== undefined, policy: policy() })

  /** Challenges every url that needs it, concurrently. */
  async function prove(caller: string, accounts: readonly WantedSubscriptions[]): Promise<Proofs> {
    if (!delivering) return NOTHING_ASKED
    const { challenge, now, standings, eyesOf } = delivering
    const stored = await store.subscriptions.ofCaller(caller)
    const rewritten = new Set(accounts.map(({ accountId }) => accountId))
    const others = stored.filter(({ accountId, suspended }) => !suspended && !rewritten.has(accountId))
    const claims = new Map<string, Claim>()
    let active = others.length
    for (const { accountId, configs } of accounts) {
      for (const config of configs.filter(isActive)) {
        active += 1
        const claim = claimOf(accountId, config)
        if (active <= MOST_ACTIVE && !isProved(stored, claim)) claims.set(nameOf(claim), claim)
      }
    }
    const outcomes = new Map<string, string | undefined>()
    if (claims.size > room(caller, now())) {
      for (const name of claims.keys()) outcomes.set(name, 'it was not asked: too many were, wait a minute')
      claims.clear()
    }
    if (claims.size > 0) {
      sent.set(caller, [...(sent.get(caller) ?? []), ...[...claims].map(() => now())])
    }
    // As it stands before anybody is asked: who reads when challenged is told what changes from then on.
    const versions = new Map<string, ToldVersions | undefined>()
    for (const accountId of rewritten) {
      const eyes = eyesOf(caller, accountId)
      versions.set(accountId, eyes && (await standings.current(eyes)))
    }
    const limit = pLimit(CHALLENGES_AT_ONCE)
    await Promise.all(
      [...claims].map(([name, claim]) =>
        limit(async () => outcomes.set(name, await challenge(caller, claim))),
      ),
    )

    function problemOf({ accountId, configs }: WantedSubscriptions): NotificationProblem | undefined {
      for (const [index, config] of configs.entries()) {
        if (!isActive(config)) continue
        const claim = claimOf(accountId, config)
        const name = nameOf(claim)
        const path = `notification_configs[${index}]`
        if (outcomes.has(name)) {
          const reason = outcomes.get(name)
          if (reason === undefined) continue
          return {
            ...{ code: 'VALIDATION_ERROR', path: `${path}.url` },
            message: `The url did not prove that it wants these webhooks: ${reason}.`,
            suggestion:
              'Answer the signed POST of type webhook.challenge with {"challenge": <its challenge>}.',
          }
        }
        if (isProved(stored, claim)) continue
        return tooMany(index)
      }
      return undefined
    }

    return { problemOf, versions }
  }

  /**
   * Stores an account's subscriptions; those that were proved before and are kept continue unchanged. A subscriber that was
   * there `before`, at another url or paused, is first sent that it must read again.
   */
  async function keep(
    { subscriptions, jobs }: Subscriptions,
    caller: string,
    { accountId, configs, before }: WantedSubscriptions & { before: readonly NotificationConfig[] },
    { versions }: Proofs,
  ): Promise<void> {
    const stored = (await subscriptions.ofCaller(caller)).filter((one) => one.accountId === accountId)
    const wanted = configs.filter(isActive).map((config) => claimOf(accountId, config))
    const names = new Set(wanted.map(nameOf))
    const staying = stored.filter((one) => !one.suspended && names.has(nameOfStored(one)))
    const staysAs = new Set(staying.map(nameOfStored))
    for (const one of stored) if (!staying.includes(one)) await subscriptions.remove(one.job)
    for (const claim of wanted) {
      if (staysAs.has(nameOf(claim))) continue
      const { subscriberId, url, eventTypes, authentication } = claim
      const job = `sub_${newId()}`
      const config = { url, event_types: eventTypes, ...(authentication && { authentication }) }
      await subscriptions.add({ caller, accountId, subscriberId, job, config })
      const standsAt = versions.get(accountId)
      // What this one may have read is not known: it is told to read again.
      const hasMissed = !standsAt || before.some(({ subscriber_id }) => subscriber_id === subscriberId)
      await jobs.add(subscriptionJob(job, caller, { versions: standsAt, hasMissed }))
    }
  }

  return { rules, prove, keep, onSubscribed: () => delivering?.onSubscribed() }
}

export type Subscribing = ReturnType<typeof createSubscriptions>
