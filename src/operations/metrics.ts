/**
 * Metrics of upstreams, registries, providers, verdicts and snapshots (docs/metrics.md); those of served requests are in
 * server/monitoring.ts. Gauges are read from their owners at each scrape, so they are never outdated. Labels are bounded:
 * ids from the roster, up to a limit, and our own closed words.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { recordBytes } from '../authz/provider/files.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { createUpstreamLabels, createUpstreamMeter, type UpstreamMeter } from './meters.js'
import type { ObservedState } from './views.js'

const MAX_LABELLED = 500
const STATES = ['starting', 'fresh', 'stale', 'absent'] as const
const BUILD_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export type Metrics = Pick<UpstreamMeter, 'metered' | 'lastAnswer'> & {
  registry: Registry
  /** Call it when a snapshot was built, in `seconds`, and published. */
  built(snapshot: Snapshot, seconds: number): void
  buildFailed(): void
  /** Counts a question to the console about the feed by its outcome. */
  consoleAsked(outcome: string): void
  /** Counts an attempt to notify a subscriber by its outcome. */
  eventSent(outcome: string): void
  /** Counts a notification of an upstream by its outcome, and what the reading that followed gained. */
  eventHeard(outcome: string, reading?: { gainedMs: number; spared: number }): void
}

type Sample = [labels: Record<string, string>, value: number]

/** Registers all of them. `now`: ms since the epoch. */
export function createMetrics(observed: ObservedState, now: () => number): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const entries = () => observed.roster().entries
  const label = createUpstreamLabels(entries, MAX_LABELLED, (id) => meter.forget(id))

  function gauge(
    name: string,
    help: string,
    labelNames: readonly string[],
    samples: () => Sample[] | Promise<Sample[]>,
  ): void {
    new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      async collect() {
        const found = await samples()
        this.reset()
        for (const [labels, value] of found) this.inc(labels, value)
      },
    })
  }

  /** NaN when there is no value: a missing value must not look like a good one. */
  function number(name: string, help: string, value: () => number | undefined): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value() ?? Number.NaN)
      },
    })
  }

  const ageSeconds = (since: number | undefined) => since && (now() - since) / 1_000

  const perUpstream = (name: string, help: string, value: (status: UpstreamStatus) => number | undefined) =>
    gauge(name, help, ['upstream'], () =>
      observed.statuses().flatMap((status): Sample[] => {
        const number = value(status)
        return number === undefined ? [] : [[{ upstream: label(status.id) }, number]]
      }),
    )

  gauge('tributary_upstream_state', '1 for the state that each upstream is in', ['upstream', 'state'], () =>
    observed
      .statuses()
      .flatMap(({ id, state }) =>
        STATES.map((each): Sample => [{ upstream: label(id), state: each }, each === state ? 1 : 0]),
      ),
  )
  gauge('tributary_upstream_problem', 'Why the last refresh failed', ['upstream', 'reason'], () =>
    observed
      .statuses()
      .flatMap(({ id, problem }): Sample[] =>
        problem ? [[{ upstream: label(id), reason: problem.reason }, 1]] : [],
      ),
  )
  perUpstream('tributary_upstream_rows', 'Rows in use', ({ listings }) => listings)
  perUpstream(
    'tributary_upstream_token_distrusted',
    "1 while an upstream's version tokens are ignored, because rows changed under an unchanged one",
    ({ caughtAt }) => (caughtAt === undefined ? 0 : 1),
  )
  perUpstream(
    'tributary_upstream_age_seconds',
    'Time since the rows in use were last confirmed to be current',
    ({ confirmedAt }) => ageSeconds(confirmedAt),
  )
  perUpstream(
    'tributary_upstream_next_attempt_seconds',
    'Time until the next refresh; after a failure, until the next probe',
    ({ nextAttemptAt }) => nextAttemptAt && Math.max(0, nextAttemptAt - now()) / 1_000,
  )
  gauge('tributary_upstream_dropped_rows', 'Rows that were read and not kept', ['upstream', 'reason'], () =>
    observed
      .statuses()
      .flatMap(({ id, dropped }) =>
        Object.entries(dropped).map(([reason, count]): Sample => [{ upstream: label(id), reason }, count]),
      ),
  )

  number('tributary_rows_bytes', "Memory that all upstreams' rows take", () => observed.memory().usedBytes)
  number(
    'tributary_rows_limit_bytes',
    "Most memory that all upstreams' rows may take (limits.memory)",
    () => observed.memory().limitBytes,
  )
  number(
    'tributary_rows_evictions',
    "Times that an upstream's rows were dropped because all together took too much memory",
    () => observed.memory().evictions,
  )

  number(
    'tributary_answers_bytes',
    'Bytes of the answers of upstreams, registries and providers that are being read (limits.under_way)',
    observed.underWay.bytes,
  )
  number(
    'tributary_answers_given_up',
    'Answers that were given up because too much was being read at once',
    observed.underWay.givenUp,
  )

  gauge('tributary_registry_up', '1 when the registry answered its last request', ['registry'], () =>
    observed.registries().map(({ url, problem }): Sample => [{ registry: url }, problem ? 0 : 1]),
  )
  gauge('tributary_registry_agents', 'Signals agents that the registry lists', ['registry'], () =>
    observed.registries().map(({ url, agents }): Sample => [{ registry: url }, agents ?? 0]),
  )

  gauge(
    'tributary_providers',
    'Providers that the rows name: good, failing (the last good file still counts), or why unverifiable',
    ['state'],
    () =>
      observed.providers().map(({ document, expiresAt = 0, problem }): Sample => {
        if (document && now() < expiresAt) return [{ state: problem ? 'failing' : 'good' }, 1]
        return [{ state: document ? 'expired' : (problem?.reason ?? 'pending') }, 1]
      }),
  )
  number('tributary_provider_bytes', 'Bytes of the provider files that are held, each counted once', () => {
    const held = new Map<string, number>()
    for (const { document } of observed.providers())
      if (document) held.set(document.digest, recordBytes(document))
    return [...held.values()].reduce((sum, bytes) => sum + bytes, 0)
  })
  number(
    'tributary_provider_held_pointers',
    'Providers whose changed pointer is on hold',
    () => observed.providers().filter(({ heldPointer }) => heldPointer).length,
  )
  gauge(
    'tributary_offers',
    'Offers, by whether they are published or withheld',
    ['upstream', 'fate'],
    async () =>
      (await observed.contributions()).flatMap(({ upstream, published, withheld }): Sample[] => [
        [{ upstream: label(upstream), fate: 'published' }, published],
        [{ upstream: label(upstream), fate: 'withheld' }, withheld],
      ]),
  )
  gauge(
    'tributary_withheld_offers',
    'Withheld offers that were looked at, by verdict',
    ['reason'],
    async () =>
      (await observed.contributions()).flatMap(({ reasons }) =>
        [...reasons].map(([reason, count]): Sample => [{ reason }, count]),
      ),
  )

  number('tributary_snapshot_signals', 'Signals in the feed', () => observed.snapshot()?.shown.length)
  number('tributary_snapshot_age_seconds', 'Time since the current snapshot was published', () =>
    ageSeconds(observed.publishedAt()),
  )
  number('tributary_snapshot_bytes', 'Bytes of the rows of the current snapshot', () =>
    observed.snapshot()?.rows.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0),
  )
  number(
    'tributary_revision_built',
    'Revision of the world that the published feed shows',
    () => observed.revisions().built,
  )
  number('tributary_revision_wanted', 'Newest revision of the world', () => observed.revisions().wanted)
  number(
    'tributary_feed_behind_seconds',
    'Age of the oldest change that the published feed does not show',
    () => observed.revisions().behindMs / 1_000,
  )
  number(
    'tributary_retained_snapshots',
    'Replaced snapshots that are kept for page walks',
    () => observed.retained().snapshots,
  )
  number(
    'tributary_retained_bytes',
    'Memory that would be free without the replaced snapshots',
    () => observed.retained().bytes,
  )
  gauge('tributary_account_scopes', 'Accounts that are read from upstreams, by state', ['state'], () => {
    const states = observed.accountStatuses().map(({ state }) => state)
    return STATES.map((state): Sample => [{ state }, states.filter((each) => each === state).length])
  })
  gauge('tributary_config_info', 'The revision of the configuration in force', ['revision'], () => [
    [{ revision: observed.config().revision }, 1],
  ])
  gauge('tributary_config_file_info', 'The revision of the file on disk', ['revision'], () => {
    const revision = observed.configuration().file_revision
    return revision === undefined ? [] : [[{ revision }, 1]]
  })
  number(
    'tributary_config_rejected',
    '1 while the configuration file has an error and the last one runs',
    () => Number(observed.configuration().problem !== undefined),
  )
  gauge(
    'tributary_replicas',
    'Live processes on one storage, by the revision of their configuration',
    ['revision'],
    () => {
      const { replicas = { [observed.config().revision]: 1 } } = observed.configuration()
      return Object.entries(replicas).map(([revision, count]): Sample => [{ revision }, count])
    },
  )
  const moved = new Counter({
    name: 'tributary_snapshot_moves_total',
    help: 'Published snapshots that differ from the one before, by what changed',
    labelNames: ['what'],
    registers,
  })
  const buildSeconds = new Histogram({
    name: 'tributary_snapshot_build_seconds',
    help: 'Time from the slices to the published snapshot',
    buckets: BUILD_SECONDS,
    registers,
  })
  const failed = new Counter({
    name: 'tributary_snapshot_build_failures_total',
    help: 'Snapshots that could not be built; the one before is served on',
    registers,
  })

  const questions = new Counter({
    name: 'tributary_console_questions_total',
    help: 'Questions of the console about the feed: answered, or left because the page was closed or asked anew',
    labelNames: ['outcome'],
    registers,
  })

  const events = new Counter({
    name: 'tributary_feed_events_total',
    help: 'Deliveries to subscribers of the feed, by outcome: delivered, failed, refused, suspended',
    labelNames: ['outcome'],
    registers,
  })

  const heard = new Counter({
    name: 'tributary_upstream_events_total',
    help: 'Events from upstreams, by outcome: heard, duplicate, challenge, ignored, refused',
    labelNames: ['outcome'],
    registers,
  })
  const gained = new Counter({
    name: 'tributary_upstream_events_gained_seconds_total',
    help: 'How much sooner upstreams were read because they told of a change',
    registers,
  })

  const spared = new Counter({
    name: 'tributary_upstream_events_readings_spared_total',
    help: 'Events of upstreams that needed no reading of their own, because one was due anyway',
    registers,
  })

  const meter = createUpstreamMeter({
    registry,
    entries,
    labelOf: ({ id }) => label(id),
    now,
  })
  let last: Pick<Snapshot, 'structure' | 'pricing'> | undefined

  return {
    registry,
    metered: meter.metered,
    lastAnswer: meter.lastAnswer,
    built({ structure, pricing }, seconds) {
      buildSeconds.observe(seconds)
      if (last && last.structure !== structure) moved.inc({ what: 'structure' })
      if (last && last.pricing !== pricing) moved.inc({ what: 'pricing' })
      last = { structure, pricing }
    },
    buildFailed: () => failed.inc(),
    consoleAsked: (outcome) => questions.inc({ outcome }),
    eventSent: (outcome) => events.inc({ outcome }),
    eventHeard(outcome, reading) {
      heard.inc({ outcome })
      gained.inc((reading?.gainedMs ?? 0) / 1_000)
      spared.inc(reading?.spared ?? 0)
    },
  }
}
