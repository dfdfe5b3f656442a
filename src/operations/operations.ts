/**
 * Everything for the person who runs the server: metrics and traces of outgoing requests, the registry listing,
 * explain. It reads the parts of the federation and changes none.
 */
import type { Providers } from '../authz/provider/providers.js'
import type { CompiledProvider, Judge } from '../authz/rules/verdict.js'
import type { Config } from '../config/values.js'
import { createDepartures, createFormerUpstreams } from '../explain/absence.js'
import { createExplainer } from '../explain/explain.js'
import {
  type Contribution,
  contributionsOf,
  explainUpstreams,
  publishedByUpstream,
} from '../explain/upstream.js'
import type { Feed } from '../feed/feed.js'
import { signalPart } from '../merge/identity.js'
import { type Clock, pause } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { inOwnTurns } from '../process/portion-turns.js'
import type { ServerOptions } from '../server/app.js'
import { createRegistryListing } from '../server/listing/registry-listing.js'
import type { Revisions } from '../server/monitoring.js'
import { digestText } from '../snapshot/digests.js'
import { entryOf, type Snapshot, signalNameAt } from '../snapshot/snapshot.js'
import type { Repositories } from '../store/store.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Blobs } from '../upstreams/rows/storage.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { type ActivitySources, createActivity, createJobsView } from './activity.js'
import { createWatchdog } from './meters.js'
import { createMetrics, type Metrics } from './metrics.js'
import { createSignalHistory, type SignalHistory } from './signal-history.js'
import { tracedSend } from './tracing.js'
import { createUpstreamHistory, type Sample } from './upstream-history.js'
import { createViews, type ObservedState, type ViewSources, type Views } from './views.js'

/** Parts that are made later than this one, and are read only at a scrape, a view or a question. */
type ObservedParts = {
  upstreams: Upstreams
  providers: Providers
  /** What providers say now. */
  verdicts: { judge(): Judge; provider(domain: string): CompiledProvider }
  feed: Feed
  publisher: { revisions(): Revisions }
}

type OperationsOptions = {
  config: () => Config
  send: Send
  clock: Clock
  /** Bytes of answers that are being read. */
  underWay: ObservedState['underWay']
  parts: () => ObservedParts
  configuration: ObservedState['configuration']
  /** Callers that hit their rate limit, with how often. */
  limitedCallers: ViewSources['limitedCallers']
  /** Ids of callers that an operator suspended. */
  suspended: () => ReadonlySet<string>
  blobs: Blobs
  /** What buyers did, and what is under way. */
  store: ActivitySources & Pick<Repositories, 'signalChanges'>
  onTrouble(message: string): void
}

export type Operations = Pick<Metrics, 'buildFailed' | 'consoleAsked' | 'eventSent' | 'eventHeard'> & {
  /** For requests to upstreams: counted and traced. */
  send: Send
  contributions(): Promise<readonly Contribution[]>
  /** Call it when a snapshot replaced another in the public layer. `seconds`: how long the build took. */
  published(before: Snapshot | undefined, after: Snapshot, seconds: number): void
  /** Call it when this process built `after`, which replaced `before`. */
  built(before: Snapshot | undefined, after: Snapshot): void
  /** What happened to a signal (signal-history.ts). */
  changesOf: SignalHistory['of']
  /** Another number when `changesOf` may give more. */
  changesKept(): number
  /** What the server serves of these parts. */
  shown: Required<Pick<ServerOptions, 'operatorRegistry' | 'registryListing' | 'explain'>>
  /** What operators look at, by name. */
  views: Views & { activity: ReturnType<typeof createActivity>; jobs: ReturnType<typeof createJobsView> }
  /** A text that changes when something that the views show changes. */
  pulse(): string
  /** Begins to follow the upstreams; call it when `parts` are all there. */
  start(): void
  close(): Promise<void>
}

/** Everything of this file for one running server. */
export function createOperations(options: OperationsOptions): Operations {
  const { config, configuration, send, clock, underWay, parts, blobs, store, onTrouble } = options
  const { suspended, limitedCallers } = options
  const { now } = clock
  let given: { snapshot: Snapshot; contributions: Promise<readonly Contribution[]> } | undefined
  let publishedAt: number | undefined

  /** Computed once per snapshot, in portions, because it parses rows. */
  async function currentContributions(): Promise<readonly Contribution[]> {
    const { feed, verdicts } = parts()
    const snapshot = feed.current()
    if (!snapshot) return []
    if (given?.snapshot !== snapshot) {
      given = { snapshot, contributions: inOwnTurns(contributionsOf(snapshot, verdicts.judge())) }
    }
    return given.contributions
  }

  const observed: ObservedState = {
    ...{ config, configuration, underWay },
    roster: () => parts().upstreams.roster(),
    registries: () => parts().upstreams.registries(),
    statuses: () => parts().upstreams.statuses(),
    accountStatuses: () => parts().upstreams.accountStatuses(),
    memory: () => parts().upstreams.memory(),
    providers: () => parts().providers.states(),
    snapshot: () => parts().feed.current(),
    publishedAt: () => publishedAt,
    retained: () => parts().feed.retained(),
    contributions: currentContributions,
    revisions: () => parts().publisher.revisions(),
  }
  const { roster, statuses } = observed

  function slices(account?: string): readonly Slice[] {
    const { upstreams } = parts()
    if (account === undefined) return upstreams.slices()
    const own = upstreams.holdings().flatMap(({ scope, slice }) => (scope === account && slice ? slice : []))
    const replaced = new Set(own.map(({ agentUrl }) => agentUrl))
    return [...own, ...upstreams.slices().filter(({ agentUrl }) => !replaced.has(agentUrl))]
  }

  const metrics = createMetrics(observed, now)
  const { buildFailed, consoleAsked, eventSent, eventHeard } = metrics
  const watchdog = createWatchdog(metrics.registry)
  const sendToUpstreams = tracedSend(metrics.metered(send))
  const departures = createDepartures()
  const former = createFormerUpstreams()
  const { explain } = createExplainer({
    ...observed,
    feed: {
      current: (account) => parts().feed.current(account),
      lookup: (...asked) => parts().feed.lookup(...asked),
      prepared: (...asked) => parts().feed.prepared(...asked),
    },
    judge: () => parts().verdicts.judge(),
    provider: (domain) => parts().verdicts.provider(domain),
    providerState: (domain) => parts().providers.state(domain),
    ...{ slices, departures, former, suspended, now },
    callers: () => config().callers,
  })
  let counted: { snapshot: Snapshot; published: ReadonlyMap<string, number> } | undefined
  async function samples(): Promise<Sample[]> {
    const snapshot = observed.snapshot()
    if (snapshot && counted?.snapshot !== snapshot) {
      counted = { snapshot, published: await inOwnTurns(publishedByUpstream(snapshot)) }
    }
    return statuses().map(({ id, agentUrl, listings, problem }) => ({
      upstream: id,
      rows: listings,
      published: counted?.published.get(id) ?? 0,
      ms: metrics.lastAnswer(agentUrl)?.ms,
      failing: problem !== undefined,
    }))
  }
  const history = createUpstreamHistory({ blobs, clock, samples, onTrouble })
  const views = createViews({
    ...observed,
    ...{ history, suspended, limitedCallers, lastAnswer: metrics.lastAnswer },
    upstreams: (agentUrls) => explainUpstreams(agentUrls, { ...observed, slices }),
  })

  const changes = createSignalHistory({ records: store.signalChanges, clock, onTrouble })
  /** Of the public feed: an account's own signals stay without a name. */
  function nameOf(handle: string): string | undefined {
    const snapshot = observed.snapshot()
    const entry = snapshot ? entryOf(snapshot, signalPart(handle)) : -1
    return snapshot && entry >= 0 ? signalNameAt(snapshot, entry) : undefined
  }

  const activity = createActivity({ ...store, nameOf })
  const jobs = createJobsView({ work: store.work, now })

  function pulse(): string {
    const told = [
      statuses().map(({ id, state, listings, problem, nextAttemptAt }) => [
        id,
        state,
        listings,
        problem,
        nextAttemptAt,
      ]),
      observed.registries().map(({ url, agents, fetchedAt, problem }) => [url, agents, fetchedAt, problem]),
      [observed.snapshot()?.id, config().revision, configuration()],
      [...suspended()],
    ]
    return digestText(JSON.stringify(told))
  }

  const registryListing = createRegistryListing({
    registries: () => config().registries,
    ...{ send, sendToUpstreams, roster, statuses, now, pause: (ms) => pause(clock, ms) },
    lastAnswer: metrics.lastAnswer,
  })

  return {
    send: sendToUpstreams,
    contributions: currentContributions,
    published(before, after, seconds) {
      publishedAt = now()
      metrics.built(after, seconds)
      history.look()
      void departures.note(before, after, publishedAt)
      former.note(roster(), publishedAt)
    },
    built: (before, after) => changes.note(before, after, now()),
    ...{ changesOf: changes.of, changesKept: changes.keptTimes },
    ...{ buildFailed, consoleAsked, eventSent, eventHeard },
    shown: { operatorRegistry: metrics.registry, registryListing: registryListing.list, explain },
    ...{ pulse, start: history.start },
    views: { ...views, activity, jobs },
    async close() {
      watchdog.close()
      registryListing.close()
      await changes.close()
      await history.close()
    },
  }
}
