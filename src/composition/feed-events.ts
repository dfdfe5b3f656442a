/** Who is told of changes of the feed, and as which reader each of them sees it. */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { overlayName } from '../config/callers.js'
import type { Config } from '../config/values.js'
import { type Announcer, createAnnouncer } from '../events/announcer.js'
import { createChallenge } from '../events/challenge.js'
import {
  createListener,
  type HeardOutcome,
  type HeardReading,
  type Listener,
  type Teller,
} from '../events/listener.js'
import { createSenderKeys } from '../events/sender-keys.js'
import { createStandings, type Eyes } from '../events/standings.js'
import { createSubscriptions, type Subscribing } from '../events/subscriptions.js'
import { createWebhook, webhookPolicy } from '../events/webhook.js'
import { inventoryOf } from '../explain/contributions.js'
import type { Feed } from '../feed/feed.js'
import type { Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { WEBHOOKS } from '../signing/profile.js'
import { createReplayGuard, type SharedNonces } from '../signing/replay.js'
import { createSigner } from '../signing/sign.js'
import type { Store } from '../store/store.js'
import type { DeclaredAccounts } from '../tasks/read-account.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { signingFacts, upstreamsSettings } from './settings.js'

type FeedEventsOptions = {
  config(): Config
  store: Store
  feed: Feed
  declaredAccounts: DeclaredAccounts
  /** To places that callers name. */
  send: Send
  clock: Clock
  random(): number
  log: Logger
  /** The url of the agent that signs. */
  agentUrl(): string
  onOutcome(outcome: string): void
}

export type FeedEvents = {
  subscribing: Subscribing
  /** Absent where receivers could not find the key that events are signed with. */
  announcer?: Announcer
}

function eyesOf({ callers }: Config, caller: string, account: string): Eyes | undefined {
  const key = callers.keys.find(({ id }) => id === caller)
  if (!key) return undefined
  const open: Reader = { caller, visibility: 'full', grants: key.destinations }
  const isConfigured = Object.hasOwn(key.accounts, account)
  return { open, account, ...(isConfigured && { own: { ...open, account: overlayName(caller, account) } }) }
}

/** Whether our webhooks can be verified: unverifiable ones are not sent, because anybody could forge them. */
function tellsFeedEvents(config: Config, events: Config['events']): boolean {
  const { brandJsonUrl, algorithm } = signingFacts(config, events)
  return brandJsonUrl !== undefined && algorithm !== undefined
}

export function createFeedEvents(options: FeedEventsOptions): FeedEvents {
  const { config, store, feed, declaredAccounts, send, clock, random, log, agentUrl, onOutcome } = options
  const { signingKey } = config().events
  const common = { store, newId: randomUUID, policy: () => webhookPolicy(config().egress) }
  if (!signingKey || !tellsFeedEvents(config(), config().events)) {
    return { subscribing: createSubscriptions(common) }
  }
  const signer = createSigner(signingKey, WEBHOOKS)
  const standings = createStandings({ feed, clock })
  const eyes = (caller: string, account: string) => eyesOf(config(), caller, account)
  const announcer = createAnnouncer({
    ...{ store, standings, clock, random, onOutcome },
    webhook: createWebhook({ send, now: clock.now, signer }),
    newId: randomUUID,
    eyesOf: eyes,
    isOpen: async (caller, account) =>
      eyes(caller, account)?.own !== undefined || (await declaredAccounts(caller, account)),
    onProblem: (problem) => log.warn({ problem }, 'events'),
  })
  const challenge = createChallenge({ send, signer, now: clock.now, agentUrl })
  const delivering = {
    ...{ challenge, now: clock.now, standings, eyesOf: eyes },
    onSubscribed: announcer.wake,
  }
  return { subscribing: createSubscriptions({ ...common, delivering }), announcer }
}

/** Listening to upstreams that tell what changes, where the configuration names a place at which they reach us. */
type FeedListenerOptions = {
  config(): Config
  upstreams: Upstreams
  send: Send
  clock: Clock
  log: Logger
  secret: Uint8Array
  /** Absent: there is no other process. */
  sharedNonces?: SharedNonces
  onOutcome(outcome: HeardOutcome, reading?: HeardReading): void
}

/** Undefined where upstreams are not told how to reach us (`events.public_url`). */
export function createFeedListener(options: FeedListenerOptions): Listener | undefined {
  const { config, upstreams, send, clock, log, secret, sharedNonces, onOutcome } = options
  const { publicUrl } = config().events
  if (publicUrl === undefined) return undefined
  const keyOf = createSenderKeys({ send, now: clock.now })

  function tellers(): Map<string, Teller | undefined> {
    const all = new Map<string, Teller | undefined>()
    for (const { id, agentUrl } of upstreams.statuses()) {
      const dialect = upstreams.dialectOf(id)
      if (!dialect) all.set(agentUrl, undefined)
      if (!dialect?.feedEvents) continue
      const call = upstreams.callerOf(id)
      const syncAccounts: Teller['syncAccounts'] = async (args, deadline) => {
        const outcome = await call('sync_accounts', args as Record<string, unknown>, { deadline })
        if (outcome.kind === 'answer') return outcome.payload
        return outcome.kind === 'error' ? outcome.error.code : outcome.reason
      }
      all.set(agentUrl, { id, agentUrl, ...dialect.feedEvents, syncAccounts })
    }
    return all
  }

  return createListener({
    ...{ tellers, keyOf, publicUrl, secret, clock, onOutcome, newId: randomUUID },
    heard: upstreams.heard,
    account: () => upstreamsSettings(config()).account,
    replay: createReplayGuard({ now: clock.now, ...(sharedNonces && { shared: sharedNonces }) }),
    onProblem: (problem) => log.warn({ problem }, 'events'),
  })
}

/** What get_adcp_capabilities says of this agent. `events`: as they were at the start, which is when they are taken up. */
export function factsOf(config: Config, events: Config['events'], feed: Feed) {
  const { callers } = config
  const snapshot = feed.current()
  const { providerDomains = [], types } = snapshot ? inventoryOf(snapshot) : {}
  return {
    providerDomains,
    servesOwned: types?.has('owned') ?? false,
    accountOverlays: callers.keys.some(({ accounts }) => Object.keys(accounts).length > 0),
    signing: signingFacts(config, events),
    feedWebhooks: tellsFeedEvents(config, events),
  }
}
