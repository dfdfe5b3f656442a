/**
 * What an agent understands, read from its capabilities, and what it may therefore be sent
 * (docs/protocol.md#how-agents-differ: old agents reject arguments they do not know).
 */

import { isRecord } from '../../adcp/json.js'
import type { SignalRef } from '../../adcp/reference.js'
import { legacyFromRef } from '../../adcp/reference.js'
import { PROJECTABLE } from '../../adcp/requests/get-signals.js'
import type { SigningWish } from '../../signing/signed-send.js'
import type { AgentError, AgentOutcome, Arguments, Payload } from './agent.js'

/** `older`: no capabilities operation, which came with 3.0. */
export type Release = 'current' | '3.0' | 'older'

export type Dialect = {
  readonly release: Release
  /**
   * Declared, not guessed: many answer wholesale requests without declaring it (docs/protocol.md#how-agents-differ).
   */
  readonly declaresWholesale: boolean
  /** Providers whose signals the agent says it sells: where a brief-only agent's signals are looked up. */
  readonly providerDomains?: readonly string[]
  /** The release to pin, when the agent said that it serves exactly that one. */
  readonly pin?: string
  /** Our own account, for an agent that answers no question without one. */
  readonly account?: Arguments
  /** What it wants signed. */
  readonly signing?: SigningWish
}

const PIN = '3.1'
const COMMON = ['signal_spec', 'filters', 'max_results']
const SINCE_3_0 = [
  ...COMMON,
  'signal_ids',
  'account',
  'destinations',
  'countries',
  'pagination',
  'context',
  'ext',
]

const KNOWN: Record<Release, Readonly<Record<string, readonly string[]>>> = {
  current: {}, // whatever the protocol has
  '3.0': {
    get_signals: SINCE_3_0,
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
    get_signals: [...COMMON, 'deliver_to'],
    activate_signal: ['signal_agent_segment_id', 'deployments'],
  },
}

/**
 * Every field that a current agent can be asked for (schema get-signals-request, `fields`): listings are compact by
 * default, and what a signal's own source declares about it is found nowhere else. `coverage_forecast`, which we let
 * callers name, is not in the enum of the request schema: a strict agent would refuse it.
 */
export const LISTING_FIELDS: readonly string[] = PROJECTABLE.filter((name) => name !== 'coverage_forecast')

/** Platforms that the oldest agents must be told to deliver to; one they do not know they leave out. */
const PLATFORMS = ['the-trade-desk', 'dv360', 'index-exchange', 'openx', 'pubmatic', 'amazon-dsp', 'xandr']

/** The shapes of `deliver_to` that were seen, tried in order until one is understood. */
export const DELIVER_TO: readonly Arguments[] = [
  { platforms: 'all' },
  { deployments: PLATFORMS.map((platform) => ({ type: 'platform', platform })), countries: ['US'] },
]

const MAX_SIGNED = 100
const MAX_PROVIDER_DOMAINS = 1_000 // each of them is asked for its file

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}

function isAtLeast31(version: string): boolean {
  const [major = 0, minor = 0] = version.split(/[.-]/).map(Number)
  return major > 3 || (major === 3 && minor >= 1)
}

/** The operations that the agent verifies or demands signatures of; undefined when there are none. */
function signingWish(block: unknown): SigningWish | undefined {
  if (!isRecord(block) || block.supported !== true) return undefined
  const operations = ['supported_for', 'required_for', 'warn_for'].flatMap((name) => strings(block[name]))
  if (operations.length === 0) return undefined
  return { operations: operations.slice(0, MAX_SIGNED), digest: block.covers_content_digest !== 'forbidden' }
}

function readCapabilities(payload: Payload): Dialect {
  const adcp = isRecord(payload.adcp) ? payload.adcp : {}
  const signals = isRecord(payload.signals) ? payload.signals : {}
  const versions = strings(adcp.supported_versions)
  const spoken = typeof payload.adcp_version === 'string' ? [...versions, payload.adcp_version] : versions
  const modes = strings(signals.discovery_modes)
  const signing = signingWish(payload.request_signing)
  const isCurrent =
    spoken.some(isAtLeast31) || modes.length > 0 || isRecord(payload.wholesale_feed_versioning)
  return {
    release: isCurrent ? 'current' : '3.0',
    declaresWholesale: modes.includes('wholesale'),
    providerDomains: strings(signals.data_provider_domains).slice(0, MAX_PROVIDER_DOMAINS),
    ...(versions.includes(PIN) && { pin: PIN }),
    ...(signing && { signing }),
  }
}

/** The dialect behind an answer to get_adcp_capabilities; undefined while the agent could not be asked. */
export function dialectOf(outcome: AgentOutcome): Dialect | undefined {
  if (outcome.kind === 'answer') return readCapabilities(outcome.payload)
  if (outcome.kind === 'error' && !isTransient(outcome.error)) {
    return { release: 'older', declaresWholesale: false }
  }
  return undefined
}

/**
 * `recovery` can be wrong, so repeats follow the transport (docs/protocol.md#how-agents-differ); these codes are about the
 * moment, not the request.
 */
export function isTransient({ code }: AgentError): boolean {
  return (
    code === 'SERVICE_UNAVAILABLE' ||
    code === 'RATE_LIMITED' ||
    code === 'TIMEOUT' ||
    code === 'INTERNAL_ERROR'
  )
}

export function isCredentialError({ code }: AgentError): boolean {
  return (
    code === 'AUTH_REQUIRED' ||
    code === 'AGENT_ACCESS_DENIED' ||
    code === 'PERMISSION_DENIED' ||
    /^AUTH/.test(code)
  )
}

function legacyIds(refs: unknown): unknown[] {
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

/** What a release calls by another name. */
function translated({ release }: Dialect, task: string, args: Arguments): Arguments {
  if (release === '3.0' && args.signal_refs) return { signal_ids: legacyIds(args.signal_refs), ...args }
  if (release !== 'older') return args
  if (task === 'get_signals') return { deliver_to: deliverTo(args), ...args }
  return { deployments: args.destinations, ...args }
}

/** Our own account is for reading: whoever activates or reports usage says for whom. */
function introduced({ account }: Dialect, task: string, args: Arguments): Arguments {
  return account && task === 'get_signals' ? { account, ...args } : args
}

/** The arguments that this dialect knows, in its own names. */
export function argumentsFor(dialect: Dialect, task: string, given: Arguments): Arguments {
  const args = introduced(dialect, task, given)
  const known = KNOWN[dialect.release][task]
  if (!known) return dialect.pin ? { adcp_version: dialect.pin, ...args } : args
  const own = Object.entries(translated(dialect, task, args))
  return Object.fromEntries(own.filter(([name]) => known.includes(name)))
}

/** Whether leaving out what the dialect does not know would ask for something else: an activation for its opposite. */
export function wouldMislead(dialect: Dialect, task: string, args: Arguments): boolean {
  return args.action === 'deactivate' && !('action' in argumentsFor(dialect, task, args))
}

/** Exact lookup in the shapes that an agent of this dialect may understand, best first; none for older ones. */
export function lookupShapes({ release }: Dialect, refs: readonly SignalRef[]): readonly Arguments[] {
  const legacy = { signal_ids: legacyIds(refs) }
  if (release === 'older') return []
  if (release === '3.0') return [legacy, { signal_refs: refs }]
  const current = { discovery_mode: 'brief', signal_refs: refs }
  return [{ ...current, fields: LISTING_FIELDS }, current, legacy]
}

/** A question in words, likewise. */
export function briefShapes({ release }: Dialect, question: string): readonly Arguments[] {
  const plain = { signal_spec: question }
  if (release === 'older') return [...DELIVER_TO.map((to) => ({ ...plain, deliver_to: to })), plain]
  return release === '3.0' ? [plain] : [{ discovery_mode: 'brief', ...plain }, plain]
}
