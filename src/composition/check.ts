/**
 * What a configuration would federate, found out once and without serving: every registry, upstream and provider is
 * asked, nothing is written, and each missing part has its reason (`tributary check`). Of one upstream also how it is
 * spoken to.
 */
import { pino } from 'pino'
import { howMany } from '../adcp/answer.js'
import { shownUrl } from '../adcp/redaction.js'
import type { Providers } from '../authz/provider/providers.js'
import type { Config } from '../config/values.js'
import { type Contribution, contributionsOf } from '../explain/upstream.js'
import type { Clock } from '../net/clock.js'
import { drained } from '../process/portions.js'
import { buildSnapshot } from '../snapshot/builder.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Arguments } from '../upstreams/agent/agent.js'
import { argumentsFor, type Dialect, pagingOf, switchesOff } from '../upstreams/agent/dialect.js'
import { inputOf, nameOf } from '../upstreams/agent/tool-inputs.js'
import { notesOf, quirksOf, rowsRead, type UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster } from '../upstreams/roster/roster.js'
import { createPassingBlobs } from '../upstreams/rows/storage.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { createStack, openWayOut } from './foundation.js'
import { lookAtPlaces, type PlaceLook } from './places.js'
import { createSources, opening, settled } from './sources.js'

/**
 * How it is known what an argument is called. `its answers`: it refuses questions without it. `nothing says otherwise`:
 * the protocol has it, and no list of tools speaks against it.
 */
type WordSource = 'its list of tools' | 'its release' | 'its answers' | 'nothing says otherwise'

type ArgumentDescription = {
  argument: string
  /** The agent's words for it; none: it is not sent. */
  said: readonly string[]
  from: WordSource
}

type TaskDescription = { task: string; name: string; arguments: readonly ArgumentDescription[] }

type AgentDescription = {
  protocol?: string
  release: Dialect['release']
  tasks: readonly TaskDescription[]
  /** What it gives and takes apart from arguments, a line each. */
  facts: readonly string[]
}

export type CheckedUpstream = {
  id: string
  url: string
  source: string
  protocol?: string
  state: UpstreamStatus['state']
  rows: number
  /** The same in words, with whether these are probably all. */
  read: string
  published: number
  problem?: { reason: string; message: string }
  /** Withheld rows by verdict, and rows that cannot be kept, by reason. */
  withheld: Readonly<Record<string, number>>
  dropped: Readonly<Record<string, number>>
  hint?: string
  /** What else an operator should know of it. */
  notes: readonly string[]
  /** How it differs from the current protocol, and how that is read. */
  quirks: readonly string[]
}

export type CheckReport = {
  file: string
  revision: string
  /** `complete`: everything configured is there. `incomplete`: something is missing. `nothing`: no signal at all. */
  outcome: 'complete' | 'incomplete' | 'nothing'
  /** Signals that would be in the feed. */
  signals: number
  /** What a server would open besides; none when one upstream is looked at. */
  opened: PlaceLook[]
  registries: { url: string; agents: number; problem?: { reason: string; message: string } }[]
  upstreams: CheckedUpstream[]
  excluded: { url: string; reason: string }[]
  providers: { domain: string; url?: string; problem?: { reason: string; message: string } }[]
  /** Settings that name what is not there. */
  warnings: string[]
  /** How the one upstream is spoken to that was asked about; absent while it has not answered. */
  speaks?: AgentDescription
}

type CheckOptions = {
  config: Config
  clock: Clock
  random: () => number
  /** The id of the one upstream that is looked at, closely: no other is asked. */
  upstream?: string | undefined
  /** Told now and then how far it is. */
  onProgress(text: string): void
}

const PLATFORM = { type: 'platform', platform: 'a-platform', account: 'a-seat' }
const REF = { scope: 'data_provider', data_provider_domain: 'a.example', signal_id: 'an_id' }
const ACCOUNT = { account_id: 'an-account' }

/** A value for each argument of ours. */
const OURS: Readonly<Record<string, Arguments>> = {
  get_signals: {
    discovery_mode: 'wholesale',
    signal_spec: 'words',
    signal_refs: [REF],
    filters: { max_cpm: 1 },
    destinations: [PLATFORM],
    countries: ['US'],
    account: ACCOUNT,
    fields: ['name'],
    pagination: { max_results: 7 },
    if_wholesale_feed_version: 'v',
    if_pricing_version: 'v',
  },
  activate_signal: {
    signal_agent_segment_id: 'a-segment',
    destinations: [PLATFORM],
    action: 'deactivate',
    pricing_option_id: 'an-option',
    account: ACCOUNT,
    governance_context: 'words',
    idempotency_key: 'a-key',
  },
  get_task_status: { task_id: 'a-task', include_result: true },
  report_usage: { usage: [], reporting_period: {}, idempotency_key: 'a-key' },
}

/** The agent's words that one argument changes. */
function wordsFor(dialect: Dialect, task: string, argument: string, value: unknown): string[] {
  const without = argumentsFor(dialect, task, {})
  const said = argumentsFor(dialect, task, { [argument]: value })
  return Object.keys(said).filter((name) => JSON.stringify(said[name]) !== JSON.stringify(without[name]))
}

function sourceOf(dialect: Dialect, task: string, argument: string): WordSource {
  if (argument === 'account' && task === 'get_signals' && dialect.account) return 'its answers'
  const input = inputOf(dialect.release, dialect.tools, task)
  if (!input) return 'nothing says otherwise'
  return input === dialect.tools?.get(nameOf(task, dialect.tools)) ? 'its list of tools' : 'its release'
}

function describeTask(dialect: Dialect, task: string): TaskDescription {
  const described = Object.entries(OURS[task] ?? {}).map(([argument, value]): ArgumentDescription => {
    const isUntaken = argument === 'action' && !switchesOff(dialect)
    const said = isUntaken ? [] : wordsFor(dialect, task, argument, value)
    return { argument, said, from: sourceOf(dialect, task, argument) }
  })
  return { task, name: nameOf(task, dialect.tools), arguments: described }
}

function pagingFact(dialect: Dialect): string {
  const paging = pagingOf(dialect)
  if (paging.kind === 'pages') return 'gives rows in pages, by a cursor'
  if (paging.kind !== 'number') return 'gives as many rows as it likes, and takes no number'
  const most = Number.isFinite(paging.most) ? `, ${paging.most} at most by its list of tools` : ''
  return `gives as many rows as it is asked for (max_results)${most}`
}

function factsOf(dialect: Dialect): string[] {
  const { declaresWholesale, recognisesMs, providerDomains = [], signing, tools } = dialect
  const hours = recognisesMs === undefined ? undefined : recognisesMs / 3_600_000
  return [
    declaresWholesale
      ? 'declares a wholesale feed'
      : 'declares no wholesale feed (it is asked for one all the same)',
    pagingFact(dialect),
    switchesOff(dialect)
      ? 'takes deactivations'
      : 'is not known to take deactivations: whoever runs it names action in its tool or skill activate_signal',
    hours === undefined
      ? 'does not say that it recognises a repeated request: an activation whose answer is lost is not repeated'
      : `recognises a repeated request for ${hours} hours`,
    ...(tools === undefined ? ['gives no list of tools'] : []),
    ...(providerDomains.length > 0 ? [`declares ${providerDomains.length} provider domains`] : []),
    ...(signing ? [`wants signatures on ${signing.operations.join(', ')}`] : []),
  ]
}

/**
 * How an agent is called, argument by argument, for a person who asks why it gives no more: which of our arguments are
 * sent, in which words, and how that is known. Nothing is listed twice: the dialect itself is asked to translate each
 * argument.
 */
function describeAgent(dialect: Dialect): AgentDescription {
  const { release, protocol } = dialect
  return {
    release,
    ...(protocol && { protocol }),
    tasks: Object.keys(OURS).map((task) => describeTask(dialect, task)),
    facts: factsOf(dialect),
  }
}

type Parts = { opened: PlaceLook[]; upstreams: Upstreams; providers: Providers; snapshot: Snapshot }

/** Names in callers and policies that match nothing, usually because of a typing error. */
function danglingNames(
  { callers, authorization }: Config,
  roster: Roster,
  domains: readonly string[],
): string[] {
  const urls = new Set(roster.entries.map(({ agentUrl }) => agentUrl))
  const named = callers.keys.flatMap(({ id, accounts, credentials }) =>
    [...Object.values(accounts).flatMap(Object.keys), ...Object.keys(credentials)].map((upstream) => ({
      id,
      upstream,
    })),
  )
  const callersWrong = named
    .filter(({ upstream }) => !urls.has(upstream))
    .map(({ id, upstream }) => `caller ${id} names the upstream ${upstream}, which is not in the roster`)
  const policiesWrong = Object.keys(authorization.providers)
    .filter((domain) => !domains.includes(domain))
    .map((domain) => `authorization.providers names ${domain}, which no row names`)
  const isNobody = callers.keys.length === 0 && callers.anonymous === 'deny'
  const nobody = isNobody ? ['nobody could call: callers.keys is empty, and callers.anonymous is deny'] : []
  return [...new Set([...nobody, ...callersWrong, ...policiesWrong])]
}

function outcomeOf(report: Omit<CheckReport, 'outcome'>): CheckReport['outcome'] {
  const cannotStart = report.opened.some(
    ({ what, problem }) => (what === 'storage' || what === 'address') && problem,
  )
  if (report.signals === 0 || cannotStart) return 'nothing'
  const failed = [...report.registries, ...report.upstreams, ...report.opened].some(({ problem }) => problem)
  const silent = report.upstreams.some(({ published }) => published === 0)
  return failed || silent ? 'incomplete' : 'complete'
}

function reportOf(
  config: Config,
  { opened, upstreams, providers, snapshot }: Parts,
  given: readonly Contribution[],
): CheckReport {
  const { entries, excluded } = upstreams.roster()
  const statuses = new Map(upstreams.statuses().map((status) => [status.id, status]))
  const looked = entries.filter(({ id }) => statuses.has(id))
  const states = providers.states()
  const report = {
    file: config.file,
    revision: config.revision,
    signals: snapshot.shown.length,
    opened,
    registries: upstreams.registries().map(({ url, agents = 0, problem }) => ({
      url: shownUrl(url),
      agents,
      ...(problem && { problem }),
    })),
    // With an unknown id the whole list stays, so that the person sees which ids exist.
    upstreams: (looked.length > 0 ? looked : entries).map(({ id, url, source }): CheckedUpstream => {
      const status = statuses.get(id)
      const { protocol, state = 'starting', listings = 0, problem, dropped = {} } = status ?? {}
      const { published = 0, reasons = [], hint } = given.find((each) => each.upstream === id) ?? {}
      return {
        ...{ id, url: shownUrl(url), source: shownUrl(source), state, published, dropped },
        ...(protocol && { protocol }),
        rows: listings,
        read: status ? rowsRead(status) : '0',
        ...(problem && { problem }),
        withheld: Object.fromEntries(reasons),
        ...(hint && { hint }),
        notes: status ? notesOf(status) : [],
        quirks: status ? quirksOf(status) : [],
      }
    }),
    excluded: excluded.map(({ url, reason }) => ({ url: shownUrl(url), reason })),
    providers: states.map(({ domain, document, problem }) => ({
      domain,
      ...(document && { url: document.url }),
      ...(problem && { problem: { reason: problem.reason, message: problem.message } }),
    })),
    warnings: danglingNames(
      config,
      { entries, excluded },
      states.map(({ domain }) => domain),
    ),
  }
  return { ...report, outcome: outcomeOf(report) }
}

/** Asks everything once. Takes as long as the slowest upstream, bounded by two of the configured timeouts. */
export async function checkConfig(options: CheckOptions): Promise<CheckReport> {
  const { config, clock, random, upstream, onProgress } = options
  const way = await openWayOut(config)
  const stack = createStack()
  stack.add(way)
  const sources = createSources(
    {
      ...{ config: () => config, send: way.send, sendToUpstreams: way.send, clock, random },
      blobs: createPassingBlobs(),
      log: pino({ level: 'silent' }), // the report says everything
      ...(upstream !== undefined && { reads: (id: string) => id === upstream }),
    },
    stack,
  )
  const { providers, verdicts, questions, upstreams, worlds } = sources
  function tell(): void {
    const statuses = upstreams.statuses()
    const answered = statuses.filter(({ state }) => state !== 'starting').length
    onProgress(
      `asked ${answered} of ${howMany(statuses.length, 'upstream')}, and ${howMany(providers.states().length, 'provider')}`,
    )
  }
  try {
    worlds.onMove(tell)
    await upstreams.start()
    await questions.open(upstreams)
    await opening({ upstreams, providers, clock })
    await settled(upstreams.statuses, clock, clock.now() + 2 * config.defaults.timeoutMs, tell)
    await providers.settled()
    const judge = verdicts.judge()
    const snapshot = buildSnapshot({ slices: upstreams.slices(), judge })
    const opened = upstream === undefined ? await lookAtPlaces(config, way.send) : []
    const report = reportOf(
      config,
      { opened, upstreams, providers, snapshot },
      drained(contributionsOf(snapshot, judge)),
    )
    const read = upstreams.statuses().find(({ id }) => id === upstream)
    const dialect = read && upstreams.dialectOf(read.agentUrl)
    return { ...report, ...(dialect && { speaks: describeAgent(dialect) }) }
  } finally {
    await stack.close()
  }
}
