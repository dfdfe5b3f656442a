/**
 * What agents' tools accept: from their own tool lists, or from what is known of their release. Agents of every release
 * are in use, and most refuse an unknown argument, so one request is spelled in the words of each agent
 * (docs/protocol.md#how-agents-differ).
 */
import { isRecord } from '../../adcp/json.js'
import { legacyFromRef, type SignalRef } from '../../adcp/signal.js'
import type { Arguments } from './agent.js'
import type { ToolInput, ToolInputs } from './tool-list.js'

/** `older`: no capabilities operation, which came with 3.0. `plural`: so old that segments have the plural id in its rows. */
export type AgentRelease = 'current' | '3.0' | 'older' | 'plural'

/**
 * The arguments that tools of each release are known to take, for agents without a tool list and for tools whose schema names
 * nothing. `current` takes what the protocol has.
 */
const KNOWN: Readonly<Record<AgentRelease, Readonly<Record<string, readonly string[]>>>> = {
  current: {},
  '3.0': {
    get_signals: [
      'signal_spec',
      'filters',
      'max_results',
      'signal_ids',
      'account',
      'destinations',
      'countries',
      'pagination',
      'context',
      'ext',
    ],
    activate_signal: [
      'idempotency_key',
      'action',
      'signal_agent_segment_id',
      'destinations',
      'pricing_option_id',
      'account',
      'context',
      'ext',
    ],
  },
  older: {
    get_signals: ['signal_spec', 'filters', 'max_results', 'deliver_to'],
    activate_signal: ['signal_agent_segment_id', 'deployments'],
  },
  plural: {
    get_signals: ['signal_spec', 'filters', 'max_results', 'deliver_to'],
    activate_signal: ['signals_agent_segment_id', 'platform', 'account'],
  },
}

/** Of the known arguments those that are plain texts: there an account is a seat at the platform. */
const KNOWN_TEXTS: Readonly<Partial<Record<AgentRelease, readonly string[]>>> = { plural: ['account'] }

/** Platforms that the oldest agents must be told to deliver to; one they do not know they leave out. */
const PLATFORMS = ['the-trade-desk', 'dv360', 'index-exchange', 'openx', 'pubmatic', 'amazon-dsp', 'xandr']

/** The shapes of `deliver_to` that were seen, tried in order until one is understood. */
export const DELIVER_TO: readonly Arguments[] = [
  { platforms: 'all' },
  { deployments: PLATFORMS.map((platform) => ({ type: 'platform', platform })), countries: ['US'] },
]

/** Other names of a task, in the specification and in older releases. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  get_task_status: ['tasks/get', 'tasks_get'],
  get_adcp_capabilities: ['get_protocol_capabilities'],
}

/** Before 3.0. */
export const isOld = (release: AgentRelease) => release === 'older' || release === 'plural'

/** The one platform that is asked for; undefined when it is none or several. */
function onlyPlatform({ destinations }: Arguments): Record<string, unknown> | undefined {
  if (!Array.isArray(destinations) || destinations.length !== 1) return undefined
  const [only] = destinations
  return isRecord(only) && only.type === 'platform' ? only : undefined
}

/** References as legacy ids, without those that have none. */
export function legacyIds(refs: unknown): unknown[] {
  return (Array.isArray(refs) ? (refs as SignalRef[]) : []).flatMap((ref) => legacyFromRef(ref) ?? [])
}

/** The oldest agents want to be told where to deliver, whoever asks; both shapes at once, since nothing was learnt. */
function deliverTo({ destinations, countries }: Arguments): Arguments {
  const [everywhere, listed] = DELIVER_TO
  return {
    ...everywhere,
    ...listed,
    ...(destinations !== undefined && { deployments: destinations }),
    ...(countries !== undefined && { countries }),
  }
}

type Spelling = {
  /** The agent's word. */
  theirs: string
  /** Ours for the same: where the agent takes one of these, it is not translated. */
  ours: readonly string[]
  /** Only where the agent wants a plain text. */
  asText?: boolean
  /** The agent's value; undefined where the wish cannot be said in this word. */
  say(args: Arguments): unknown
}

/** How the same is said elsewhere: 3.0 and before, the plural segment id, one platform at a time, `deliver_to`. */
const SPELLINGS: Readonly<Record<string, readonly Spelling[]>> = {
  get_signals: [
    {
      theirs: 'signal_ids',
      ours: ['signal_refs'],
      say: ({ signal_refs: refs }) => (refs ? legacyIds(refs) : undefined),
    },
    {
      theirs: 'max_results',
      ours: ['pagination'],
      say: ({ pagination }) => (isRecord(pagination) ? pagination.max_results : undefined),
    },
    { theirs: 'deliver_to', ours: ['destinations'], say: deliverTo },
  ],
  activate_signal: [
    {
      theirs: 'signals_agent_segment_id',
      ours: ['signal_agent_segment_id'],
      say: ({ signal_agent_segment_id: id }) => id,
    },
    { theirs: 'deployments', ours: ['destinations'], say: ({ destinations }) => destinations },
    {
      theirs: 'platform',
      ours: ['destinations', 'deployments'],
      say: (args) => onlyPlatform(args)?.platform,
    },
    { theirs: 'account', ours: [], asText: true, say: (args) => onlyPlatform(args)?.account },
    { theirs: 'account_id', ours: ['account'], asText: true, say: (args) => onlyPlatform(args)?.account },
  ],
}

/**
 * What one tool takes: its own schema where that is closed, or where it names something and the release is an old one, whose
 * agents refuse the rest without saying so. Undefined: whatever the protocol has.
 */
export function inputOf(
  release: AgentRelease,
  tools: ToolInputs | undefined,
  task: string,
): ToolInput | undefined {
  const own = tools?.get(nameOf(task, tools))
  if (own && (own.isClosed || (release !== 'current' && own.names.size > 0))) return own
  const known = KNOWN[release][task]
  if (!known) return undefined
  const texts = new Set(KNOWN_TEXTS[release])
  return { names: new Set(known), isClosed: true, texts, switchesOff: known.includes('action') }
}

/** The arguments in the words of a tool, without those that it has no word for. */
export function spelled(task: string, input: ToolInput, args: Arguments): Arguments {
  const said: Record<string, unknown> = {}
  for (const { theirs, ours, asText = false, say } of SPELLINGS[task] ?? []) {
    if (!input.names.has(theirs) || (asText && !input.texts.has(theirs))) continue
    if (ours.some((name) => input.names.has(name)) || (!asText && theirs in args)) continue
    const value = say(args)
    if (value !== undefined) said[theirs] = value
  }
  const kept = Object.entries(args).filter(
    // An account that is a plain text there is the seat at the platform, not the account of a buyer here.
    ([name]) => input.names.has(name) && !(name === 'account' && input.texts.has(name)),
  )
  return { ...Object.fromEntries(kept), ...said }
}

/** Whether an activation asks for more destinations than can be said: the tool takes one platform, by its name. */
export function asksForTooMany({ names }: ToolInput, args: Arguments): boolean {
  const takesLists = names.has('destinations') || names.has('deployments')
  return !takesLists && names.has('platform') && !onlyPlatform(args)
}

/** What a task is called at an agent: its list has the one name or the other. */
export function nameOf(task: string, tools: ToolInputs | undefined): string {
  if (!tools || tools.has(task)) return task
  return NAMES[task]?.find((name) => tools.has(name)) ?? task
}
