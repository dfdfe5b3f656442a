/**
 * What an agent understands, read from its capabilities, and what it may therefore be sent
 * (docs/protocol.md#how-agents-differ: old agents reject arguments they do not know); and which failure an error answer of it is.
 */
import { firstOf } from '../../adcp/answer.js'
import { isRecord } from '../../adcp/json.js'
import type { SignalRef } from '../../adcp/signal.js'
import { PROJECTABLE } from '../../adcp/signal-requests.js'
import type { SigningWish } from '../../signing/signature.js'
import {
  type AgentError,
  type AgentOutcome,
  type Arguments,
  type CallFailure,
  callFailed,
  type Payload,
  type Protocol,
  type UpstreamFailure,
} from './agent.js'
import {
  type AgentRelease,
  asksForTooMany,
  DELIVER_TO,
  inputOf,
  isOld,
  legacyIds,
  nameOf,
  spelled,
} from './tool-inputs.js'
import type { ToolInputs } from './tool-list.js'

const MAX_SIGNED = 100
const MAX_OFFERS = 20
const MAX_EVENT_TYPES = 100
const LEAST_REPLAY_S = 3_600 // schema protocol/get-adcp-capabilities-response
const MAX_PROVIDER_DOMAINS = 1_000 // each of them is asked for its file
const MAX_WORD = 253 // characters; the longest name of a domain; no known operation, release or mode is longer
const MAX_URL = 2_048 // characters
const MOST_NAMED = 5 // of other offers, in a sentence

/** Codes about the moment: the same request may be answered later. */
const OF_THE_MOMENT: ReadonlySet<string> = new Set([
  'SERVICE_UNAVAILABLE',
  'RATE_LIMITED',
  'TIMEOUT',
  'INTERNAL_ERROR',
])

const OF_THE_CREDENTIAL = /^(AUTH|(AGENT_ACCESS|PERMISSION)_DENIED$)/

/** Codes that say only that the request is wrong: what is wrong with it stands in the field or the message. */
const OF_THE_REQUEST: ReadonlySet<string> = new Set(['INVALID_REQUEST', 'VALIDATION_ERROR', 'TOOL_ERROR'])

/** Failures with which an agent that has no signals answers a request for them, as others may too. */
const OF_OTHER_AGENTS: ReadonlySet<UpstreamFailure> = new Set([
  'agent_error',
  'account_needed',
  'not_enumerable',
])

/** Arguments without which a request means something else: an activation for another account, ungoverned. */
const ESSENTIAL = ['account', 'governance_context'] as const

/** What is pinned, the best first: an agent may still call 3.2 by a release that is not final. */
const PINS = ['3.2', '3.2-beta.5', '3.1'] as const

/** `coverage_forecast`, which we let callers name, is not in the enum of the request schema: a strict agent would refuse it. */
const FIELDS = PROJECTABLE.filter((name) => name !== 'coverage_forecast')
const FIELDS_OF_31 = FIELDS.filter((name) => name !== 'demographic_predicate')

export type Dialect = {
  readonly release: AgentRelease
  readonly protocol?: Protocol
  /**
   * Declared, not guessed: many answer wholesale requests without declaring it (docs/protocol.md#how-agents-differ).
   */
  readonly declaresWholesale: boolean
  /** Providers whose signals the agent says it sells: where a brief-only agent's signals are looked up. */
  readonly providerDomains?: readonly string[]
  /** What it says it serves, where signals are not among it. */
  readonly offers?: readonly string[]
  /** The release to pin, when the agent said that it serves exactly that one. */
  readonly pin?: string
  /** What its tools take, as its list of tools says. */
  readonly tools?: ToolInputs
  /** How long it recognises a request by its idempotency key, ms; absent when it does not say that it does. */
  readonly recognisesMs?: number
  /** Our own account, for an agent that answers no question without one. */
  readonly account?: Arguments
  /** What it wants signed. */
  readonly signing?: SigningWish
  /** What it tells of changes of its feed, signed with a key that its operator's brand.json leads to. */
  readonly feedEvents?: { readonly types: readonly string[]; readonly brandJsonUrl: string }
}

/**
 * Every field that a current agent can be asked for (schema get-signals-request, `fields`): listings are compact by
 * default, and what a signal's own source declares about it is found nowhere else.
 */
export function listingFields({ pin = '3.1' }: Pick<Dialect, 'pin'>): readonly string[] {
  return pin.startsWith('3.2') ? FIELDS : FIELDS_OF_31
}

/** What is learnt is stored: words that are longer than any such word are left out. */
function strings(value: unknown): string[] {
  if (!Array.isArray(value)) return []
  return value.filter((each): each is string => typeof each === 'string' && each.length <= MAX_WORD)
}

function isAtLeast(least: number): (version: string) => boolean {
  return (version) => {
    const [major = 0, minor = 0] = version.split(/[.-]/).map(Number)
    return major > 3 || (major === 3 && minor >= least)
  }
}
const isAtLeast31 = isAtLeast(1)
const isAtLeast32 = isAtLeast(2)

/** The operations that the agent verifies or demands signatures of; undefined when there are none. */
function signingWish(block: unknown, padded: boolean): SigningWish | undefined {
  if (!isRecord(block) || block.supported !== true) return undefined
  const operations = ['supported_for', 'required_for', 'warn_for'].flatMap((name) => strings(block[name]))
  if (operations.length === 0) return undefined
  const digest = block.covers_content_digest !== 'forbidden'
  return { operations: operations.slice(0, MAX_SIGNED), digest, padded }
}

/** No default is to be assumed (schema protocol/get-adcp-capabilities-response, `idempotency`). */
function readRecognition(declared: unknown): number | undefined {
  const { supported, replay_ttl_seconds: seconds } = isRecord(declared) ? declared : {}
  if (supported !== true) return undefined
  return 1_000 * (typeof seconds === 'number' && seconds > 0 ? seconds : LEAST_REPLAY_S)
}

/**
 * The events of its feed that an agent's capabilities declare, and where its operator names its keys. Undefined for events that
 * nobody could verify: those are not listened to.
 */
export function readFeedEvents({
  wholesale_feed_webhooks: webhooks,
  webhook_signing: signing,
  identity,
}: Payload) {
  if (!isRecord(webhooks) || webhooks.supported !== true) return undefined
  if (!isRecord(signing) || signing.supported !== true || !isRecord(identity)) return undefined
  const { brand_json_url: brandJsonUrl } = identity
  if (typeof brandJsonUrl !== 'string' || !brandJsonUrl.startsWith('https://')) return undefined
  if (brandJsonUrl.length > MAX_URL) return undefined
  return { types: strings(webhooks.event_types).slice(0, MAX_EVENT_TYPES), brandJsonUrl }
}

function readCapabilities(payload: Payload): Dialect {
  const adcp = isRecord(payload.adcp) ? payload.adcp : {}
  const signals = isRecord(payload.signals) ? payload.signals : {}
  const versions = strings(adcp.supported_versions)
  const spoken = typeof payload.adcp_version === 'string' ? [...versions, payload.adcp_version] : versions
  const modes = strings(signals.discovery_modes)
  const signing = signingWish(payload.request_signing, versions.some(isAtLeast32))
  const offers = strings(payload.supported_protocols).slice(0, MAX_OFFERS)
  const pin = PINS.find((one) => versions.includes(one))
  const recognisesMs = readRecognition(adcp.idempotency)
  const feedEvents = readFeedEvents(payload)
  const isCurrent =
    spoken.some(isAtLeast31) || modes.length > 0 || isRecord(payload.wholesale_feed_versioning)
  return {
    release: isCurrent ? 'current' : '3.0',
    declaresWholesale: modes.includes('wholesale'),
    ...(recognisesMs !== undefined && { recognisesMs }),
    providerDomains: strings(signals.data_provider_domains).slice(0, MAX_PROVIDER_DOMAINS),
    ...(offers.length > 0 && !offers.includes('signals') && { offers }),
    ...(pin && { pin }),
    ...(signing && { signing }),
    ...(feedEvents && { feedEvents }),
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
 * Whether an error is about the moment and not the request: by its code, because `recovery` can be wrong
 * (docs/protocol.md#how-agents-differ).
 */
export function isTransient({ code }: AgentError): boolean {
  return OF_THE_MOMENT.has(code)
}

/** Whether the agent refuses the credential, or asks for one. */
export function isCredentialError({ code }: AgentError): boolean {
  return OF_THE_CREDENTIAL.test(code)
}

/** Whether an agent refuses the request as such: the error is neither about the moment nor about the credential. */
export function isAboutRequest(
  outcome: { kind: 'answer' } | { kind: 'failed' } | { kind: 'error'; error: AgentError },
): boolean {
  return outcome.kind === 'error' && !isTransient(outcome.error) && !isCredentialError(outcome.error)
}

/** Whether it wants an account that it knows: frameworks say so in a field or a message of a validation error. */
function isAboutAccount({ code, field = '', message }: AgentError): boolean {
  if (code.startsWith('ACCOUNT_')) return true
  return OF_THE_REQUEST.has(code) && /\baccount\b/i.test(`${field} ${message}`)
}

function reasonOf(error: AgentError): UpstreamFailure {
  if (isCredentialError(error)) return 'unauthorized'
  if (isAboutAccount(error)) return 'account_needed'
  return error.code === 'RATE_LIMITED' ? 'rate_limited' : 'agent_error'
}

/** The failure that an error answer to get_signals is. */
export function refusalOf(error: AgentError): CallFailure {
  return callFailed(reasonOf(error), `get_signals: ${error.code}: ${error.message}`, error.retryAfterMs)
}

/** What the agent itself says that shows that it offers no signals; empty when nothing does. */
function otherOffers({ offers, protocol, tools }: Dialect): string[] {
  // The skills of an A2A card are named as its author likes.
  const lacks = protocol === 'mcp' && tools && tools.size > 0 && !tools.has(nameOf('get_signals', tools))
  return [
    ...(offers ? [`its capabilities name ${firstOf(MOST_NAMED, offers)}, not signals`] : []),
    ...(lacks ? [`its list of tools has ${firstOf(MOST_NAMED, [...tools.keys()])}, not get_signals`] : []),
  ]
}

/** A refusal by an agent that says itself that it offers something else. */
export function asOfAnother(failure: CallFailure, dialect: Dialect): CallFailure {
  const offers = OF_OTHER_AGENTS.has(failure.reason) ? otherOffers(dialect) : []
  if (offers.length === 0) return failure
  return callFailed('not_signals', [failure.message, ...offers].join('; '), failure.retryAfterMs)
}

/** Our own account is for reading: whoever activates or reports usage says for whom. */
function introduced({ account }: Dialect, task: string, args: Arguments): Arguments {
  return account && task === 'get_signals' ? { account, ...args } : args
}

/** The arguments that this dialect knows, in its own names. */
export function argumentsFor(dialect: Dialect, task: string, given: Arguments): Arguments {
  const args = introduced(dialect, task, given)
  const pinned = dialect.pin ? { adcp_version: dialect.pin, ...args } : args
  const input = inputOf(dialect.release, dialect.tools, task)
  return input ? spelled(task, input, pinned) : pinned
}

/** Whether a task takes an argument, as far as is known. */
export function takes({ tools }: Dialect, task: string, argument: string): boolean {
  const own = tools?.get(nameOf(task, tools))
  return !own?.isClosed || own.names.has(argument)
}

/**
 * Whether the agent is known to take `action`: one that does not know the word activates instead. A list of tools says; an A2A card
 * without a word of it says nothing, whatever release the agent claims.
 */
export function switchesOff({ release, protocol, tools }: Dialect): boolean {
  const own = tools?.get('activate_signal')
  if (own && (own.names.size > 0 || own.switchesOff)) return own.switchesOff
  if (protocol === 'a2a') return false
  return inputOf(release, tools, 'activate_signal')?.switchesOff ?? true
}

/** Why a request would ask for something else in this dialect, and the argument it is about; undefined when it would not. */
export function unsaid(
  dialect: Dialect,
  task: string,
  args: Arguments,
): { field: string; message: string } | undefined {
  if (task !== 'activate_signal') return undefined
  if (args.action === 'deactivate' && !switchesOff(dialect)) {
    return { field: 'action', message: 'this agent is not known to have a way to switch a signal off' }
  }
  const input = inputOf(dialect.release, dialect.tools, task)
  if (input && asksForTooMany(input, args)) {
    const message = 'this agent activates for one platform at a time, and for no other kind of destination'
    return { field: 'destinations', message }
  }
  const said = argumentsFor(dialect, task, args)
  const field = ESSENTIAL.find((name) => args[name] !== undefined && said[name] !== args[name])
  return field && { field, message: `this agent cannot be told ${field}` }
}

/** Whether a request that was first sent `ageMs` ago would be recognised, and so not be carried out twice. */
export function recognises(dialect: Dialect, task: string, args: Arguments, ageMs: number): boolean {
  const { recognisesMs = 0 } = dialect
  return 'idempotency_key' in argumentsFor(dialect, task, args) && ageMs < recognisesMs * (5 / 6)
}

/** The arguments without those that the tool's closed schema does not name: for what no release has a table of. */
export function fitting(dialect: Dialect, task: string, args: Arguments): Arguments {
  return Object.fromEntries(Object.entries(args).filter(([name]) => takes(dialect, task, name)))
}

/**
 * How many rows an agent gives at once: in pages, by a number that may be as large as its schema says, or as many as it likes.
 */
export function pagingOf({
  release,
  tools,
}: Dialect): { kind: 'pages' | 'fixed' } | { kind: 'number'; most: number } {
  const input = inputOf(release, tools, 'get_signals')
  if (!input || input.names.has('pagination')) return { kind: 'pages' }
  if (!input.names.has('max_results')) return { kind: 'fixed' }
  return { kind: 'number', most: input.maxResults ?? Number.POSITIVE_INFINITY }
}

/** Shapes that come to the same in the agent's own words are one. */
function distinct(dialect: Dialect, shapes: readonly Arguments[]): readonly Arguments[] {
  const own = new Map(
    shapes.map((shape) => [JSON.stringify(argumentsFor(dialect, 'get_signals', shape)), shape]),
  )
  return [...own.values()]
}

/** Exact lookup in the shapes that an agent of this dialect may understand, best first; none for those that know none. */
export function lookupShapes(dialect: Dialect, refs: readonly SignalRef[]): readonly Arguments[] {
  const legacy = { signal_ids: legacyIds(refs) }
  const knows = (name: string) => dialect.tools?.get('get_signals')?.names.has(name) ?? false
  if (isOld(dialect.release)) return knows('signal_ids') ? [legacy] : []
  if (!takes(dialect, 'get_signals', 'signal_refs') && !takes(dialect, 'get_signals', 'signal_ids')) return []
  if (dialect.release === '3.0') return distinct(dialect, [legacy, { signal_refs: refs }])
  const current = { discovery_mode: 'brief', signal_refs: refs }
  return distinct(dialect, [{ ...current, fields: listingFields(dialect) }, current, legacy])
}

/** A question in words, likewise. */
export function briefShapes(dialect: Dialect, question: string): readonly Arguments[] {
  const plain = { signal_spec: question }
  if (isOld(dialect.release)) {
    return distinct(dialect, [...DELIVER_TO.map((to) => ({ ...plain, deliver_to: to })), plain])
  }
  return dialect.release === '3.0'
    ? [plain]
    : distinct(dialect, [{ discovery_mode: 'brief', ...plain }, plain])
}
