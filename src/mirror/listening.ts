/**
 * Listens to the agent whose feed is mirrored: subscribes to its feed events with `sync_accounts`, proves the url, and accepts what
 * is posted there when its signature is valid (specification, "Events"). An agent that offers no events, or refuses the
 * subscription, is reported and asked again later.
 */
import { hash, randomBytes, randomUUID, scryptSync } from 'node:crypto'
import { isRecord } from '../adcp/json.js'
import { FEED_EVENTS } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import {
  createReceiver,
  createSenderKeys,
  type EventsPlace,
  isSameEvents,
  keptSubscription,
} from '../events/receiver.js'
import { type Clock, doubledMs, jittered, pause } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { createReplayGuard } from '../signing/verify.js'
import { readFeedEvents } from '../upstreams/agent/dialect.js'
import type { FeedAsker } from './feed-asker.js'
import { openPort } from './port.js'

/**
 * An account's set is replaced whole and carries no version, so whoever read it at the same time may write it without us
 * (docs/protocol.md#feed-webhooks): after a write, and after a failure, it is looked at soon, and then ever more seldom. So it
 * is where each look finds it gone: who removes it does so again, and each write is a reading of the feed.
 */
const [FIRST_LOOK_MS, LAST_LOOK_MS, LAST_RETRY_MS] = [5_000, 10 * 60_000, 5 * 60_000]
const SECRET_BYTES = 24

export type ListenOptions = {
  /** Where the agent reaches us: https. What is posted below it has to come to `port`, with the last part of its path. */
  url: string
  port: number
  /** Default: 127.0.0.1. */
  host?: string | undefined
  /** Where no account is named: the domain for which one is declared. Default: the host of `url`. */
  brand?: string | undefined
}

type ListeningOptions = {
  listen: ListenOptions
  /** Of the agent. */
  url: string
  account: string | undefined
  /** The key with which the agent is asked. */
  token: string | undefined
  /** Names this mirror among the subscribers of its account. */
  source: string
  asker: FeedAsker
  send: Send
  clock: Clock
  signal: AbortSignal
  onEvent(event: Readonly<Record<string, unknown>>, bytes: number): void
  /** The subscription is active from now on. */
  onSubscribed(): void
  onProblem(problem: string): void
}

type Config = Readonly<Record<string, unknown>>

/** Another's subscription as it is sent again: an account's set is replaced whole. */
function repeated({ ext, ...config }: Config): Config {
  const { tributary: _, ...rest } = isRecord(ext) ? ext : {}
  return { ...config, ...(Object.keys(rest).length > 0 && { ext: rest }) }
}

type SubscribingOptions = Pick<ListeningOptions, 'asker' | 'onSubscribed'> & {
  place: EventsPlace
  /** The account as it is declared. */
  declared: object
}

/** Gives the function that subscribes unless the subscription stands. */
function createSubscribing({ asker, place, declared, onSubscribed }: SubscribingOptions) {
  /** What the agent keeps of the account's subscriptions now; a text where there is none: why. */
  async function sync(configs?: readonly Config[]) {
    const entry = { ...declared, ...(configs && { notification_configs: configs }) }
    const reply = await asker.ask('sync_accounts', {
      idempotency_key: `mirror-${randomUUID()}`,
      accounts: [entry],
    })
    if (reply.kind !== 'answer') return reply.message
    const kept = keptSubscription(reply.answer, place.subscriberId)
    if (kept) return kept
    const [row] = Array.isArray(reply.answer.accounts) ? reply.answer.accounts.filter(isRecord) : []
    const [error] = Array.isArray(row?.errors) ? row.errors.filter(isRecord) : []
    return typeof error?.message === 'string'
      ? asker.toTell(error.message)
      : 'it did not accept the subscription'
  }

  /** `stands`: it was active before; `written`: it is now; else why it is not. */
  return async (): Promise<'stands' | 'written' | { problem: string }> => {
    const capabilities = await asker.ask('get_adcp_capabilities', {})
    if (capabilities.kind !== 'answer') return { problem: capabilities.message }
    const told = readFeedEvents(capabilities.answer)
    const types = FEED_EVENTS.filter((type) => told?.types.includes(type))
    if (!told || types.length === 0) {
      return { problem: 'it declares no feed webhooks that could be verified' }
    }
    place.sender = { ...place.sender, brandJsonUrl: told.brandJsonUrl }
    place.types = types
    const before = await sync()
    if (typeof before === 'string') return { problem: before }
    const { own, others, accountId } = before
    place.accountId = accountId
    if (before.isActive && own?.url === place.url && isSameEvents(types, own?.event_types)) return 'stands'
    if (others.some(({ authentication }) => authentication !== undefined)) {
      return { problem: 'the account has another subscription, whose secret would have to be sent again' }
    }
    const wanted = { subscriber_id: place.subscriberId, url: place.url, event_types: types, active: true }
    place.isAsking = true
    const after = await sync([...others.map(repeated), wanted]).finally(() => {
      place.isAsking = false
    })
    if (typeof after === 'string') return { problem: after }
    onSubscribed()
    return after.isActive ? 'written' : { problem: 'it keeps the subscription as paused' }
  }
}

/**
 * The url that the agent is told, with a part of its path that nobody guesses. It is made from the key, so it is the same after a
 * restart; slowly, so that who is shown the url cannot try keys. Without a key each process has another.
 */
function secretPlace({ token, source }: Pick<ListeningOptions, 'token' | 'source'>, target: URL) {
  const secret = scryptSync(token ?? randomBytes(SECRET_BYTES), `${source} ${target.href}`, SECRET_BYTES)
  const url = new URL(target)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${secret.toString('base64url')}`
  return { secret: secret.toString('base64url'), url: url.href }
}

/** Listens at once; rejects when the port cannot be opened. */
export async function startListening(options: ListeningOptions) {
  const { listen, url, account, source, asker, clock, signal, onEvent, onSubscribed, onProblem } = options
  const target = URL.canParse(listen.url) ? new URL(listen.url) : undefined
  if (!target) throw new Error(`expected the url at which the agent reaches this mirror, got ${listen.url}`)
  const brand = listen.brand ?? target.hostname
  const told = secretPlace(options, target)
  const place: EventsPlace = {
    sender: { agentUrl: canonicalUrl(url) ?? url, brandJsonUrl: '' },
    url: told.url,
    subscriberId: `mirror-${hash('sha256', `${source} ${target.href}`).slice(0, 16)}`,
    types: [],
    isAsking: false,
  }
  const receive = createReceiver({
    placeOf: () => place,
    keyOf: createSenderKeys({ send: options.send, now: clock.now }),
    replay: createReplayGuard({ now: clock.now }),
    now: clock.now,
  })

  const port = await openPort({
    ...{ port: listen.port, host: listen.host ?? '127.0.0.1', secret: told.secret },
    async receive(delivery) {
      const receipt = await receive(place, delivery)
      if (receipt.kind === 'event') onEvent(receipt.event, delivery.body.length)
      return receipt.reply
    },
  })

  const declared = account
    ? { account: { account_id: account } }
    : { brand: { domain: brand }, operator: brand, billing: 'operator' }
  const subscribe = createSubscribing({ asker, place, declared, onSubscribed })

  return {
    /** The port that is listened on. */
    port: port.port,
    /** Subscribes, and checks from time to time that the subscription is still active. */
    async follow(): Promise<void> {
      let said: string | undefined
      let before = 'stands'
      for (let looks = 0; !signal.aborted; looks += 1) {
        const state = await subscribe()
        const problem = typeof state === 'object' ? state.problem : undefined
        if (problem !== undefined && problem !== said && !signal.aborted) {
          onProblem(`${url} does not tell what changes, it is asked on schedule: ${problem}`)
        }
        const now = typeof state === 'object' ? 'failed' : state
        if (now !== before && !(before === 'written' && now === 'stands')) looks = 0
        before = now
        said = problem
        const last = problem === undefined ? LAST_LOOK_MS : LAST_RETRY_MS
        await pause(clock, jittered(doubledMs(looks + 1, FIRST_LOOK_MS, last), Math.random), signal)
      }
    },
    close: port.close,
  }
}

export type Listening = Awaited<ReturnType<typeof startListening>>
