/**
 * How an agent is called, argument by argument, for a person who asks why it gives no more: which of our arguments are
 * sent, in which words, and how that is known. Nothing is listed twice: the dialect itself is asked to translate each
 * argument.
 */
import type { Arguments } from './agent.js'
import { argumentsFor, type Dialect, pagingOf, switchesOff } from './dialect.js'
import { inputOf, nameOf } from './signatures.js'

/**
 * `its answers`: it refuses questions without it. `nothing says otherwise`: the protocol has it, and no list of tools
 * speaks against it.
 */
type Source = 'its list of tools' | 'its release' | 'its answers' | 'nothing says otherwise'

type ArgumentDescription = {
  argument: string
  /** The agent's words for it; none: it is not sent. */
  said: readonly string[]
  from: Source
}

type TaskDescription = { task: string; name: string; arguments: readonly ArgumentDescription[] }

export type AgentDescription = {
  protocol?: string
  release: Dialect['release']
  tasks: readonly TaskDescription[]
  /** What it gives and takes apart from arguments, a line each. */
  facts: readonly string[]
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

function sourceOf(dialect: Dialect, task: string, argument: string): Source {
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

/** What the dialect does with each argument of get_signals, and what it is known from. */
export function describeAgent(dialect: Dialect): AgentDescription {
  const { release, protocol } = dialect
  return {
    release,
    ...(protocol && { protocol }),
    tasks: Object.keys(OURS).map((task) => describeTask(dialect, task)),
    facts: factsOf(dialect),
  }
}
