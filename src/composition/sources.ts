/**
 * Where a feed comes from: the upstreams, the providers, and the world that both are parts of. Upstreams name providers, and
 * providers' files say what brief-only upstreams can be asked for: each side hears of the other's changes. `opening` says
 * when enough of both is there after a start. With saved slices of agents that are still read, at once: what was good before
 * the restart is good now. Otherwise when every upstream has answered and everything that follows from the answers was read,
 * but not later than a limit: then with what is there, and `incomplete[]` names the rest.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { SignalRef } from '../adcp/signal.js'
import { providerDomain, registrableDomain } from '../authz/provider/domains.js'
import { createProviders, type ProviderListener, type Providers } from '../authz/provider/providers.js'
import {
  type CompiledProvider,
  compileProvider,
  type Granted,
  type Judge,
  judgeAt,
  lists,
  MOST_NAMES,
  MOST_REFERENCES,
  PENDING,
  type ProviderState,
} from '../authz/rules/verdict.js'
import type { Config } from '../config/values.js'
import { FAILURES } from '../explain/remedies.js'
import { type Clock, pause } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { createSigner, REQUESTS } from '../signing/signature.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { Blobs, Sharing } from '../upstreams/rows/storage.js'
import { createUpstreams, type Upstreams, type UpstreamsOptions } from '../upstreams/upstreams.js'
import type { Stack } from './foundation.js'
import { accountsOf, providerSettings, upstreamsSettings } from './settings.js'
import { createWorlds } from './world.js'

const GATHERED = 4 // collected as a multiple of what is asked for, until it is known how many belong to each provider
const OPEN_AFTER_MS = 5_000 // by default
const POLL_MS = 20

/**
 * The first items of each list, `most` in all: short lists are kept whole, long ones are cut to one length. With more
 * lists than `most`, the first lists keep one item each.
 */
export function fairShares<T>(lists: readonly (readonly T[])[], most: number): T[][] {
  let room = most
  let share = Number.POSITIVE_INFINITY
  const lengths = lists.map(({ length }) => length).sort((a, b) => a - b)
  for (const [at, length] of lengths.entries()) {
    share = Math.floor(room / (lengths.length - at))
    if (length > share) break
    room -= length
    share = Number.POSITIVE_INFINITY
  }
  let left = most
  return lists.map((list) => {
    const part = list.slice(0, Math.min(Math.max(share, 1), left))
    left -= part.length
    return part
  })
}

/** Items of many providers by who registered them, no more of them than may be needed. */
function createGathering<T>(most: number) {
  let parts = new Map<string, readonly T[]>()
  let count = 0

  function cut(): T[][] {
    const shares = fairShares([...parts.values()], most)
    parts = new Map([...parts.keys()].map((name, at) => [name, shares[at] as T[]]))
    count = shares.reduce((sum, { length }) => sum + length, 0)
    return shares
  }

  return {
    add(domain: string, items: readonly T[]): void {
      if (items.length === 0) return
      const name = registrableDomain(domain)
      parts.set(name, [...(parts.get(name) ?? []), ...items])
      count += items.length
      if (count > GATHERED * most) cut()
    },
    finish: (): T[] => cut().flat(),
  }
}

function referencesOf({ domain }: ProviderState, { ids }: Granted): SignalRef[] {
  return ids.map((id) => ({ scope: 'data_provider', data_provider_domain: domain, signal_id: id }))
}

function createProviderQuestions(providers: Providers) {
  let open = () => {}
  let isOpen = false
  const opened = new Promise<void>((resolve) => {
    open = () => {
      isOpen = true
      resolve()
    }
  })
  let named: Upstreams['providerDomains'] = () => new Map()

  /**
   * First of the providers that the agent names itself, then of all others, each with an equal share: a stranger's file
   * with many grants takes no question from the agent's own signals. It waits for the saved files: with a part of them
   * an enumerated slice would shrink.
   */
  async function gather<T>(
    agentUrl: string,
    most: number,
    items: (state: ProviderState, granted: Granted) => readonly T[],
  ): Promise<T[]> {
    await opened
    const own = new Set(
      named()
        .get(agentUrl)
        ?.map((domain) => providerDomain(domain) ?? domain),
    )
    const listing = providers
      .states()
      .filter((state) => lists(state, agentUrl))
      .sort((a, b) => (a.domain < b.domain ? -1 : 1))
    const found: T[] = []
    for (const isOwn of [true, false]) {
      const gathering = createGathering<T>(most - found.length)
      for (const state of listing) {
        if (own.has(state.domain) !== isOwn || found.length === most) continue
        gathering.add(state.domain, items(state, await providers.grantedTo(state, agentUrl)))
      }
      found.push(...gathering.finish())
    }
    return found
  }

  /** Tells the upstreams whose questions have changed. Upstreams that still wait for an answer get the new file's. */
  function tellOf(upstreams: Upstreams): ProviderListener {
    return (before, after) => {
      if (!isOpen || before.document?.digest === after.document?.digest) return
      upstreams.questionsMoved(
        (agentUrl) => lists(before, agentUrl) || lists(after, agentUrl),
        async (agentUrl) =>
          !isDeepStrictEqual(
            await providers.grantedTo(before, agentUrl),
            await providers.grantedTo(after, agentUrl),
          ),
      )
    }
  }

  return {
    /** For the upstreams: what an agent (canonical url) may sell by the files that are held now. */
    referencesFor: (agentUrl: string): Promise<SignalRef[]> =>
      gather(agentUrl, MOST_REFERENCES, referencesOf),
    /** What providers call these signals, each name once. */
    async namesFor(agentUrl: string): Promise<string[]> {
      return [...new Set(await gather(agentUrl, MOST_NAMES, (_, { names }) => names))]
    },
    /** Tells each side of the other's news from now on, and `moved` of all that bears on the feed. */
    connect(upstreams: Upstreams, moved: () => void): void {
      named = upstreams.providerDomains
      upstreams.onChange(moved)
      providers.onChange(tellOf(upstreams))
      providers.onChange(moved)
    },
    /** The saved slices are back: once the providers that they name are too, questions are answered. */
    async open(upstreams: Upstreams): Promise<void> {
      providers.want(upstreams.providerDomains())
      await providers.readOnce()
      open()
    },
    /** Those that still wait for an answer continue without it. */
    close: () => open(),
  }
}

type OpeningOptions = {
  upstreams: Upstreams
  providers: Providers
  clock: Clock
  /** How long it waits for upstreams that do not answer, ms. */
  openAfterMs?: number | undefined
}

async function poll(holds: () => boolean, clock: Clock, until: number, onLook = () => {}): Promise<void> {
  while (!holds() && clock.now() < until) {
    onLook()
    await pause(clock, POLL_MS)
  }
}

/** While a scope is read its next attempt is not ahead. */
function isSettled({ nextAttemptAt = 0, awaited = false }: UpstreamStatus, now: number): boolean {
  return nextAttemptAt > now && !awaited
}

const areSettled = (statuses: readonly UpstreamStatus[], clock: Clock): boolean =>
  statuses.every((status) => isSettled(status, clock.now()))

/** Resolves when all of them have answered or failed, at `until` at the latest. `onLook` is called while it waits. */
export function settled(
  statuses: () => readonly UpstreamStatus[],
  clock: Clock,
  until: number,
  onLook?: () => void,
): Promise<void> {
  return poll(() => areSettled(statuses(), clock), clock, until, onLook)
}

/** Whether all registries have answered or failed, and none of the agents and of the accounts there is being read. */
function areUpstreamsRead(upstreams: Upstreams, clock: Clock): boolean {
  const areRegistriesKnown = upstreams
    .registries()
    .every(({ fetchedAt, problem }) => fetchedAt !== undefined || problem !== undefined)
  return areRegistriesKnown && areSettled([...upstreams.statuses(), ...upstreams.accountStatuses()], clock)
}

/** Whether an upstream is being read, or a provider for the first time. */
export const isComing = (upstreams: Upstreams, providers: Providers, clock: Clock): boolean =>
  !areUpstreamsRead(upstreams, clock) || !providers.isSettled()

/** Resolves when the first snapshot should be built. Call it once `upstreams.start()` has resolved. */
export function opening(options: OpeningOptions): Promise<void> {
  const { upstreams, providers, clock, openAfterMs = OPEN_AFTER_MS } = options
  const saved = new Set(upstreams.slices().map(({ agentUrl }) => agentUrl))
  const isRestored = () => upstreams.roster().entries.some(({ agentUrl }) => saved.has(agentUrl))
  // All at one moment: while one is waited for, another may change, and so may the configuration.
  const isEnough = () => (isRestored() || areUpstreamsRead(upstreams, clock)) && providers.isSettled()
  return poll(isEnough, clock, clock.now() + openAfterMs)
}

type SourcesOptions = {
  /** The configuration in force. */
  config(): Config
  send: Send
  /** For requests to upstreams. */
  sendToUpstreams: Send
  blobs: Blobs
  /** With other processes on the same storage; absent: this one is alone. */
  sharing?: Sharing | undefined
  clock: Clock
  random(): number
  log: Logger
  /** Which upstreams are read, by their ids. Absent: all. */
  reads?(id: string): boolean
}

export type Sources = ReturnType<typeof createSources>

type OnTransition = NonNullable<UpstreamsOptions['onTransition']>

/** One line in the log for each change of how an upstream, one of its accounts or a registry is doing. */
function transitionsLogged(log: Logger): OnTransition {
  return (transition) => {
    if ('registry' in transition) {
      const { registry, to, message } = transition
      if (to === 'answers') log.info({ registry }, `registry answers again: ${message}`)
      else log.warn({ registry, reason: to, remedy: FAILURES[to][1] }, `registry: ${message}`)
      return
    }
    const { from, to, reason } = transition
    const level = to === 'fresh' ? 'info' : 'warn'
    const remedy = reason && FAILURES[reason][1]
    log[level](
      { ...transition, ...(remedy && { remedy }) },
      `upstream: ${from === 'starting' ? to : `${from}, now ${to}`}`,
    )
  }
}

/** Makes them; nothing is read before `upstreams.start()`. */
export function createSources(options: SourcesOptions, stack: Stack) {
  const { config, send, sendToUpstreams, blobs, sharing, clock, random, log, reads } = options
  const policy = () => config().authorization
  const { signingKey } = config().events
  const providers = stack.add(
    createProviders({
      ...{ send, blobs, clock, log },
      ...(sharing && { sharing }),
      ...providerSettings(config),
    }),
  )
  function provider(domain: string): CompiledProvider {
    const state = providers.state(domain)
    return state ? compileProvider(state) : PENDING
  }
  const questions = createProviderQuestions(providers)
  const upstreams = stack.add(
    createUpstreams({
      ...{ blobs, clock, random },
      ...(sharing && { sharing }),
      send: sendToUpstreams,
      config: upstreamsSettings(config()),
      ...(signingKey && { sign: createSigner(signingKey, REQUESTS) }),
      ...(reads && { reads }),
      ...{ referencesFor: questions.referencesFor, namesFor: questions.namesFor },
      onTransition: transitionsLogged(log),
      onTrouble: (message) => log.warn({ message }, 'upstreams'),
    }),
  )
  stack.add(questions) // upstreams wait for its answers, so it ends before they do
  const worlds = createWorlds({
    ...{ upstreams, providers, policy, clock },
    accounts: () => accountsOf(config()),
  })
  questions.connect(upstreams, worlds.moved)

  return {
    ...{ providers, questions, upstreams, worlds },
    /** What providers say now, for this thread: the start table, explain. */
    verdicts: { provider, judge: (): Judge => judgeAt({ get: provider }, policy(), clock.now()) },
  }
}
