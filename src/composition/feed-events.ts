/** Changes of the feed, told and heard: to whom, as which reader each of them sees it, and from whom. */
import { randomUUID } from 'node:crypto'
import type { DeclaredAccounts } from '../activation/accounts.js'
import type { Config } from '../config/values.js'
import { type Announcer, createAnnouncer } from '../events/announcer.js'
import {
  createListener,
  type HeardOutcome,
  type HeardReading,
  type Listener,
  type Teller,
} from '../events/listener.js'
import { createSenderKeys } from '../events/receiver.js'
import { createRegistrations } from '../events/registrations.js'
import { createStandings, type Eyes } from '../events/standings.js'
import { createChallenge, createSubscriptions, type Subscribing } from '../events/subscriptions.js'
import { createWebhook, webhookPolicy } from '../events/webhook.js'
import type { Feed } from '../feed/feed.js'
import { overlayName, type Reader } from '../feed/query.js'
import { createReplayGuard } from '../signing/verify.js'
import { turnOf } from '../upstreams/mirror/readings.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Foundation, Stack } from './foundation.js'
import { accountMark, accountsOf, nonceCheck, tellsFeedEvents, upstreamsSettings } from './settings.js'

type FeedEventsOptions = {
  foundation: Foundation
  upstreams: Upstreams
  feed: Feed
  declaredAccounts: DeclaredAccounts
  /** Whether all processes show what this one does. */
  isEverywhere(): boolean
  /** The url of the agent that signs. */
  agentUrl(): string
  /** Told of each attempt to notify a subscriber. */
  onSent(outcome: string): void
  /** Told of each notification of an upstream, and of what the reading that followed gained. */
  onHeard(outcome: HeardOutcome, reading?: HeardReading): void
}

function eyesOf(config: Config, secret: Uint8Array, caller: string, account: string): Eyes | undefined {
  const key = config.callers.keys.find(({ id }) => id === caller)
  if (!key) return undefined
  const open: Reader = { caller, visibility: 'full', grants: key.destinations }
  if (!Object.hasOwn(key.accounts, account)) return { open, account }
  const name = overlayName(caller, account)
  const standsFor = accountMark(secret, accountsOf(config).get(name))
  return { open, account, own: { ...open, account: name }, standsFor }
}

type Telling = {
  subscribing: Subscribing
  /** Absent where receivers could not find the key that events are signed with. */
  announcer?: Announcer
}

/** Telling subscribers. */
function createTelling(options: FeedEventsOptions): Telling {
  const { foundation, feed, declaredAccounts, isEverywhere, agentUrl, onSent } = options
  const { config, store, post, clock, random, secret, warning, replica } = foundation
  const common = { store, newId: randomUUID, policy: () => webhookPolicy(config().egress) }
  if (!tellsFeedEvents(config(), config().events)) {
    return { subscribing: createSubscriptions(common) }
  }
  const standings = createStandings({ feed, clock, isEverywhere })
  const eyes = (caller: string, account: string) => eyesOf(config(), secret, caller, account)
  const announcer = createAnnouncer({
    ...{ store, standings, clock, random, onOutcome: onSent },
    webhook: createWebhook({ post, now: clock.now }),
    newId: randomUUID,
    // A process with an older file does not know the callers that only the newest names, and would tell them nothing.
    mayTell: () => replica?.sharing.isNewest() ?? true,
    eyesOf: eyes,
    isOpen: async (caller, account) =>
      eyes(caller, account)?.own !== undefined || (await declaredAccounts(caller, account)),
    onProblem: warning('events'),
  })
  const challenge = createChallenge({ post, now: clock.now, agentUrl })
  const delivering = {
    ...{ challenge, now: clock.now, standings, eyesOf: eyes },
    onSubscribed: announcer.wake,
  }
  return { subscribing: createSubscriptions({ ...common, delivering }), announcer }
}

/**
 * The roster, by canonical url. The process that reads an upstream subscribes there: it knows what the upstream declares now, and of
 * several processes it is one.
 */
function tellersAmong(upstreams: Upstreams, reads: (agentUrl: string) => boolean) {
  const all: Map<string, Teller | 'mute' | 'elsewhere' | undefined> = new Map()
  for (const { id, agentUrl } of upstreams.statuses()) {
    const dialect = upstreams.dialectOf(agentUrl)
    const isHere = reads(agentUrl)
    if (!isHere || !dialect?.feedEvents) {
      all.set(agentUrl, isHere ? dialect && 'mute' : 'elsewhere')
      continue
    }
    const call = upstreams.callerOf(agentUrl)
    const syncAccounts: Teller['syncAccounts'] = async (args, deadline) => {
      const outcome = await call('sync_accounts', args as Record<string, unknown>, { deadline })
      if (outcome.kind === 'answer') return outcome.payload
      return outcome.kind === 'error' ? outcome.error.code : outcome.reason
    }
    all.set(agentUrl, { id, agentUrl, ...dialect.feedEvents, syncAccounts })
  }
  return all
}

/** Hearing from upstreams; undefined where they are not told how to reach us (`events.public_url`). */
function createHearing({ foundation, upstreams, onHeard }: FeedEventsOptions): Listener | undefined {
  const { config, store, send, clock, random, secret, warning, replica } = foundation
  const { publicUrl } = config().events
  if (publicUrl === undefined) return undefined
  const sharing = replica?.sharing
  const reads = (agentUrl: string) => !sharing || sharing.turn(turnOf(agentUrl)) !== undefined
  return createListener({
    ...{ publicUrl, secret, clock, random, newId: randomUUID, onOutcome: onHeard },
    tellers: () => tellersAmong(upstreams, reads),
    isNewest: () => sharing?.isNewest() ?? true,
    isRosterKnown: () => upstreams.registries().every(({ fetchedAt }) => fetchedAt !== undefined),
    registrations: createRegistrations({ sharing, clock }),
    keyOf: createSenderKeys({ send, now: clock.now }),
    heard: upstreams.heard,
    account: () => upstreamsSettings(config()).account,
    replay: createReplayGuard({
      now: clock.now,
      ...(store.nonces && { shared: nonceCheck(store.nonces) }),
    }),
    onProblem: warning('events'),
  })
}

/** Both ways; nothing is sent before `start`. */
export function createFeedEvents(options: FeedEventsOptions, stack: Stack) {
  const { subscribing, announcer } = createTelling(options)
  const listener = createHearing(options)
  if (announcer) stack.add(announcer)
  if (listener) stack.add(listener)
  return {
    ...{ subscribing, announcer, listener },
    start(): void {
      announcer?.start()
      listener?.start()
    },
  }
}

export type FeedEvents = ReturnType<typeof createFeedEvents>
