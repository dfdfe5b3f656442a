/**
 * What an upstream's answer to a call that changes something means: done, under way, refused for good, or unknown; and where, by it,
 * a signal is live, wherever the answer says so: at the top level, in `result`, in a task, in artifacts
 * (docs/protocol.md#how-agents-differ). Nothing is assumed: what it does not state stays unknown. Only a final refusal ends a call;
 * when it is open whether the upstream acted, the call is repeated under its key. The upstream's own words are never passed on
 * (docs/protocol.md#envelope), only its code, as a detail.
 */
import { type AdcpError, adcpError, type ErrorCode, failuresAmong, type Refused } from '../adcp/answer.js'
import { isRecord } from '../adcp/json.js'
import type { ActivationKey, Deployment, Destination } from '../adcp/signal.js'
import { destinationKey, isMoment } from '../merge/deployments.js'
import type { Action } from '../store/records/ledger.js'
import type { TaskStatus } from '../store/records/tasks.js'
import { type AgentOutcome, namesTask, type Payload, type UpstreamFailure } from '../upstreams/agent/agent.js'
import { hasBadText } from '../upstreams/rows/listing.js'
import { mayOverlap } from './destination-set.js'

/** Keys under which answers are wrapped. */
const WRAPPERS = ['result', 'task', 'response', 'data', 'output', 'structuredContent'] as const
const LISTS = ['artifacts', 'parts'] as const
const DEEPEST = 6
const WIDEST = 20 // the last ones of a list: artifacts grow at their end
const MOST_DEPLOYMENTS = 1_000 // as a row may have: they are stored, and shown to the caller

/** Other names for the states of a task: A2A 0.3 and 1.0, and releases before 3.0. */
const STATES: Readonly<Record<string, string>> = {
  cancelled: 'canceled',
  deployed: 'completed',
  pending: 'submitted',
  processing: 'working',
}

const RETRY_SECONDS = 10
const MAX_RETRY_SECONDS = 3_600 // schema core/error, `retry_after`

/** The call did not reach an agent that could have acted on it. */
const NOT_MADE: ReadonlySet<UpstreamFailure> = new Set([
  'refused',
  'unresolvable',
  'unauthorized',
  'not_an_agent',
  'backing_off',
  'unknown_upstream',
])

/** Codes with the same meaning when we send them; any other upstream code becomes a detail of INVALID_REQUEST. */
const PASSED_ON: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_REQUEST',
  'REFERENCE_NOT_FOUND',
  'PERMISSION_DENIED',
  'ACCOUNT_NOT_FOUND',
])

/**
 * Codes about the relation between the upstream and us, such as our credential there. The caller can do nothing about
 * them.
 */
const OURS = /^(AUTH_|AUTHORIZATION_|AGENT_|CONFIGURATION_|VERSION_UNSUPPORTED$|CREDENTIAL_)/

const UNDECIDED: ReadonlySet<string> = new Set([
  'SERVICE_UNAVAILABLE',
  'RATE_LIMITED',
  'IDEMPOTENCY_IN_FLIGHT',
  'GOVERNANCE_UNAVAILABLE',
])

/** Statuses of work that is still under way. */
export const GOES_ON: ReadonlySet<unknown> = new Set<TaskStatus>([
  'submitted',
  'working',
  'input-required',
  'auth-required',
])
/** Statuses of what ended without a result. */
export const ENDED: ReadonlySet<unknown> = new Set<TaskStatus>(['failed', 'canceled', 'rejected'])

/** Members that are forwarded as the caller sent them. */
const SENT_ON =
  /^(?:signal_agent_segment_id|pricing_option_id|governance_context|(?:destinations(?:\[\d{1,3}\])?|account)(?:\.[a-z_]{1,32})?)$/

/** What a caller can do instead, by the argument that the dialect lacks. */
const INSTEAD: Readonly<Record<string, string>> = {
  action: 'Ask whoever runs the upstream to switch it off.',
  destinations: 'Send one request for each platform.',
}

/** What an activation is to bring about: a state, on these destinations. */
export type Wish = { wantsLive: boolean; destinations: readonly Destination[] }

type Told = {
  deployments: Deployment[]
  /** Requested destinations that the answer does not mention. */
  unknown: Destination[]
}

/** The answer, and all that it wraps. */
export function* inside(payload: Payload, depth = 0): Generator<Payload> {
  yield payload
  if (depth === DEEPEST) return
  for (const name of WRAPPERS) {
    const inner = payload[name]
    if (isRecord(inner)) yield* inside(inner, depth + 1)
  }
  for (const name of LISTS) {
    const items = payload[name]
    if (!Array.isArray(items)) continue
    for (const item of items.slice(-WIDEST).reverse()) if (isRecord(item)) yield* inside(item, depth + 1)
  }
}

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= 2_048 && !hasBadText(value)
const isId = (value: unknown): value is string => namesTask(value) && !hasBadText(value)

/** The key of a deployment, or of an answer about one. Before 3.0 it was a plain segment id. */
function readKey({
  activation_key: current,
  decisioning_platform_segment_id: legacy,
}: Readonly<Record<string, unknown>>): ActivationKey | undefined {
  if (isText(legacy) && current === undefined) return { type: 'segment_id', segment_id: legacy }
  if (!isRecord(current)) return undefined
  const { type, segment_id, key, value: content } = current
  if (type === 'segment_id' && isText(segment_id)) return { type, segment_id }
  if (type === 'key_value' && isText(key) && isText(content)) return { type, key, value: content }
  return undefined
}

/** Before 3.0 the type could be left out. */
function readTarget({ type, platform, agent_url }: Payload): Destination | undefined {
  const named = type ?? (isText(platform) ? 'platform' : 'agent')
  if (named === 'platform' && isText(platform)) return { type: 'platform', platform }
  if (named === 'agent' && isText(agent_url)) return { type: 'agent', agent_url }
  return undefined
}

function readDeployment(row: unknown): Deployment | undefined {
  if (!isRecord(row)) return undefined
  const target = readTarget(row)
  if (!target || destinationKey(target) === undefined) return undefined
  const { account, estimated_activation_duration_minutes: minutes, deployed_at } = row
  const hasAccount = account !== undefined && account !== null && account !== ''
  if (hasAccount && !isText(account)) return undefined // without it, this would be said of all accounts
  const given = readKey(row)
  const is_live = row.is_live ?? (given ? true : undefined) // only a live deployment has a key (schema core/deployment)
  if (typeof is_live !== 'boolean') return undefined
  const isEstimate = typeof minutes === 'number' && Number.isFinite(minutes) && minutes >= 0
  return {
    ...target,
    ...(hasAccount && { account }),
    is_live,
    ...(is_live && given && { activation_key: given }),
    ...(isEstimate && { estimated_activation_duration_minutes: minutes }),
    ...(is_live && isMoment(deployed_at) && { deployed_at }),
  }
}

/**
 * The deployments in an upstream's answer: known fields only, each as a strict client takes it, and a key only on a live
 * one. A deployment without a state, or at a place that nobody can name, is left out.
 */
export function readDeployments(value: unknown): Deployment[] {
  if (!Array.isArray(value)) return []
  return value.slice(0, MOST_DEPLOYMENTS).flatMap((row) => readDeployment(row) ?? [])
}

/** Before 3.0 an answer was about its one destination, and had the key at its top level. */
function keyed(payload: Payload, destinations: readonly Destination[]): Deployment[] {
  const [only, another] = destinations
  const activation_key = readKey(payload)
  return only && !another && activation_key ? [{ ...only, is_live: true, activation_key }] : []
}

/** The deployments that an answer states, and which of the requested destinations it leaves open. */
export function readTold(payload: Payload, destinations: readonly Destination[]): Told {
  let deployments: Deployment[] = []
  for (const part of inside(payload)) {
    deployments = readDeployments(part.deployments)
    if (deployments.length === 0) deployments = keyed(part, destinations)
    if (deployments.length > 0) break
  }
  const unknown = destinations.filter((one) => !deployments.some((told) => mayOverlap(told, one)))
  return { deployments, unknown }
}

/** A state in the protocol's word; undefined when there is none. */
export function plainState(status: unknown): string | undefined {
  const word = isRecord(status) ? status.state : status
  if (typeof word !== 'string') return undefined
  const plain = word
    .toLowerCase()
    .replace(/^task_state_/, '')
    .replaceAll('_', '-')
  return STATES[plain] ?? plain
}

/**
 * The state of a task, in the protocol's words; undefined when nothing states it. An envelope may say that the question is
 * completed, and inside it the task that it is not: then the task counts. Where something of a wish was done, it ended with that.
 */
export function readStatus(payload: Payload, wish?: Wish): string | undefined {
  const states = [...inside(payload)].flatMap(({ status }) => plainState(status) ?? [])
  const [first] = states
  if (wish && showsDone(payload, wish)) return ENDED.has(first) ? 'completed' : first
  if (first !== 'completed') return first
  return states.find((state) => GOES_ON.has(state) || ENDED.has(state)) ?? first
}

/** The id of the task that an answer says goes on. */
function taskIn(payload: Payload): string | undefined {
  const goesOn = ({ status, task_id: id }: Payload) => GOES_ON.has(plainState(status)) && isId(id)
  const { task_id: id } = [...inside(payload)].find(goesOn) ?? payload
  return isId(id) ? id : undefined
}

/** The ids of all tasks that an answer names. */
export function taskIdsIn(payload: Payload): string[] {
  return [...inside(payload)].flatMap(({ task_id: id }) => (isId(id) ? [id] : []))
}

/** The members of an answer or a result that state it. */
export function toldFields({ deployments, unknown }: Told): Record<string, unknown> {
  return { deployments, ...(unknown.length > 0 && { ext: { tributary: { unknown } } }) }
}

/**
 * What is kept of an activation's answer. Its deployments hold their keys; each answer decides anew who may see them.
 */
export type Activated = {
  action: Action
  deployments: Deployment[]
  /** Requested destinations that the upstream did not mention; absent in rows of an earlier release. */
  unknown?: Destination[]
  taskId?: string
  upstreamTaskId?: string
}

export type UnderstoodAnswer =
  | { kind: 'done'; payload: Readonly<Record<string, unknown>> }
  /** Without a task id only the upstream's rows can tell what becomes of it. */
  | { kind: 'submitted'; taskId?: string }
  | Refused
  /** It did not reach the agent: `error` is for a caller who will not wait. */
  | { kind: 'not_made'; error: AdcpError; retryAfter: number }
  | { kind: 'unknown'; retryAfter: number }
  /** Its effect is unknown, and sending it again could cause it twice. */
  | { kind: 'unrepeatable' }

function retrySeconds(ms: number | undefined): number {
  return ms === undefined ? RETRY_SECONDS : Math.min(Math.max(1, Math.ceil(ms / 1_000)), MAX_RETRY_SECONDS)
}

/**
 * An upstream's error code as callers are shown it: of one word, 64 characters at most (schema core/error). Agents also
 * send numbers, small letters and the numbers of JSON-RPC. Undefined for anything else, which could be a text of theirs.
 */
export function shownCode(code: unknown): string | undefined {
  const text = typeof code === 'number' ? String(code) : code
  return typeof text === 'string' && /^[\w.:/-]{1,64}$/.test(text) ? text : undefined
}

/** What is added to a suggestion where the upstream gave a code. */
export function seeCode(code: string | undefined): string {
  return code === undefined ? '' : ' See details.upstream_code.'
}

/** The upstream's refusal in our words. `said`: the field that it names. */
function upstreamRefusal(upstream: string, code: string | undefined, said = ''): AdcpError {
  const details = { upstream, ...(code !== undefined && { upstream_code: code }) }
  if (code !== undefined && OURS.test(code)) {
    return adcpError('SERVICE_UNAVAILABLE', 'The upstream that offers this does not let this agent in.', {
      retry_after: RETRY_SECONDS,
      suggestion: 'Choose another offer of the signal, or tell the operator of this agent.',
      details,
    })
  }
  const ours = PASSED_ON.has(code ?? '') ? (code as ErrorCode) : 'INVALID_REQUEST'
  return adcpError(ours, 'The upstream that offers this refused the request.', {
    field: SENT_ON.test(said) ? said : 'signal_agent_segment_id',
    details,
    suggestion: `Read the signal again with get_signals before another attempt.${seeCode(code)}`,
  })
}

/** The upstream's dialect cannot express the request, so it was not sent. */
function inexpressible(upstream: string, field = 'action'): AdcpError {
  const message = `The upstream that offers this has no way to be told ${field} as it stands in the request; it was not asked.`
  const suggestion =
    INSTEAD[field] ?? `Send the request without ${field}, if that is what you want, or choose another offer.`
  const details = { upstream, upstream_code: 'UNSUPPORTED_FEATURE' }
  return adcpError('INVALID_REQUEST', message, { field, suggestion, details })
}

type SaidError = { code: string | undefined; field?: string; recovery?: unknown; retryAfterMs?: number }

function fromError(upstream: string, { code, field, recovery, retryAfterMs }: SaidError): UnderstoodAnswer {
  if (UNDECIDED.has(code ?? '') || recovery === 'transient') {
    return { kind: 'unknown', retryAfter: retrySeconds(retryAfterMs) }
  }
  return { kind: 'refused', error: upstreamRefusal(upstream, code, field) }
}

/**
 * Whether a destination of the wish has come to the state that was wanted: then something was done, whatever else the answer says.
 * What it shows of other destinations was not asked for.
 */
export function showsDone(payload: Payload, { wantsLive, destinations }: Wish): boolean {
  return readTold(payload, []).deployments.some(
    (told) => told.is_live === wantsLive && destinations.some((one) => mayOverlap(told, one)),
  )
}

/** All errors that an answer tells, wherever it tells them. */
export function failuresIn(payload: Payload): Readonly<Record<string, unknown>>[] {
  return [...inside(payload)].flatMap(({ adcp_error, error, errors }) => [
    ...failuresAmong([adcp_error, error].filter(isRecord)),
    ...failuresAmong(errors),
  ])
}

/** The failure that an answer tells, by its first error or its state. */
export function toldFailure(payload: Payload): SaidError | undefined {
  const [first] = failuresIn(payload)
  if (!first) return ENDED.has(readStatus(payload)) ? { code: undefined } : undefined
  const { code, field } = first
  return { code: shownCode(code), ...(typeof field === 'string' && { field }) }
}

/** How an answer is judged, by what its call was for. */
export type AnswerJudge = {
  /** Whether it shows that something was done, whatever else it says. */
  showsDone(payload: Payload): boolean
  /** The failure that it tells, where nothing was done. */
  failureIn(payload: Payload): SaidError | undefined
  /** Whether the upstream still works on it. */
  goesOn(payload: Payload): boolean
}

/** An activation fails as a whole, wherever the answer tells it (schema signals/activate-signal-response), unless it shows more. */
export function activationJudge(wish: Wish): AnswerJudge {
  return {
    showsDone: (payload) => showsDone(payload, wish),
    failureIn: (payload) => (showsDone(payload, wish) ? undefined : toldFailure(payload)),
    goesOn: (payload) => GOES_ON.has(readStatus(payload, wish)),
  }
}

type Circumstances = {
  upstream: string
  /** Absent where the outcome is an error and nothing else. */
  judge?: AnswerJudge
  /** Whether the call may have reached the upstream before: a failure to reach it now is then no result. */
  mayHaveActed: boolean
}

/** What is known after the call. */
export function understand(outcome: AgentOutcome, circumstances: Circumstances): UnderstoodAnswer {
  const { upstream, judge, mayHaveActed } = circumstances
  if (outcome.kind === 'failed') {
    const retryAfter = retrySeconds(outcome.retryAfterMs)
    if (outcome.reason === 'unrepeatable') return { kind: 'unrepeatable' }
    if (mayHaveActed || !(outcome.unsent || NOT_MADE.has(outcome.reason)))
      return { kind: 'unknown', retryAfter }
    const message = 'The upstream that offers this cannot be reached just now.'
    const details = { upstream, reason: outcome.reason }
    const error = adcpError('SERVICE_UNAVAILABLE', message, {
      retry_after: retryAfter,
      suggestion: 'Nothing was done: repeat the request after retry_after seconds, or choose another offer.',
      details,
    })
    return { kind: 'not_made', error, retryAfter }
  }
  if (outcome.kind === 'error') {
    const { error, payload = {} } = outcome
    const { code, field } = error
    if (error.unsent) return { kind: 'refused', error: inexpressible(upstream, field) }
    // It did not come to the task this time: the agent may speak another transport now, or lack the tool.
    if (mayHaveActed && error.rpcCode !== undefined) {
      return { kind: 'unknown', retryAfter: RETRY_SECONDS }
    }
    // It was carried out, or never arrived: the upstream no longer knows.
    if (mayHaveActed && code === 'IDEMPOTENCY_EXPIRED') return { kind: 'unrepeatable' }
    // Only a request that was carried out holds its key. So the first attempt arrived, and our repetition differs in
    // its transport (another release, for example). Its answer is lost; the feed shows what is live.
    if (mayHaveActed && code === 'IDEMPOTENCY_CONFLICT') return { kind: 'done', payload: {} }
    // It waits for somebody there, who may let it go on at any time.
    if (GOES_ON.has(plainState(payload.status)) && isId(payload.task_id)) {
      return { kind: 'submitted', taskId: payload.task_id }
    }
    if (judge?.showsDone(payload)) return { kind: 'done', payload }
    return fromError(upstream, { ...error, code: shownCode(code) })
  }
  const { payload } = outcome
  const failure = judge?.failureIn(payload)
  if (failure) return fromError(upstream, failure)
  if (!judge?.goesOn(payload)) return { kind: 'done', payload }
  const taskId = taskIn(payload)
  if (taskId !== undefined) return { kind: 'submitted', taskId }
  return judge.showsDone(payload) ? { kind: 'done', payload } : { kind: 'submitted' }
}
