/**
 * What an upstream's answer to a call that changes something means: done, under way, refused for good, or not known.
 * Only a refusal for good ends a call; whatever leaves open whether the upstream acted is repeated under its key.
 * The upstream's own words are never passed on (FACTS 2): its code is, as a detail.
 */
import { type AdcpError, adcpError, type ErrorCode } from '../adcp/error.js'
import type { UpstreamFailure } from '../upstreams/status.js'

/** How a call to an upstream ended, as the `upstreams` room tells it. */
export type CallOutcome =
  | { kind: 'answer'; payload: Readonly<Record<string, unknown>> }
  | { kind: 'error'; code: string; recovery?: string; retryAfterSeconds?: number }
  | { kind: 'failed'; reason: UpstreamFailure }

export type Understood =
  | { kind: 'done'; payload: Readonly<Record<string, unknown>> }
  | { kind: 'submitted'; taskId: string }
  | { kind: 'refused'; error: AdcpError }
  | { kind: 'unknown'; retryAfter: number }

const RETRY_SECONDS = 10
const MAX_RETRY_SECONDS = 3_600 // schema core/error, `retry_after`

/** The call never reached an agent that could have acted on it. */
const NOT_MADE: ReadonlySet<UpstreamFailure> = new Set([
  'refused',
  'unresolvable',
  'unauthorized',
  'not_an_agent',
])

/** Codes that say the same coming from us; whatever else an upstream says is a detail of INVALID_REQUEST. */
const PASSED_ON: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_REQUEST',
  'REFERENCE_NOT_FOUND',
  'PERMISSION_DENIED',
  'ACCOUNT_NOT_FOUND',
])

/** Codes about the upstream and us: our credential there, its state. The caller can do nothing about them. */
const OURS = /^(AUTH_|AUTHORIZATION_|AGENT_|CONFIGURATION_|VERSION_UNSUPPORTED$|CREDENTIAL_)/

const UNDECIDED: ReadonlySet<string> = new Set([
  'SERVICE_UNAVAILABLE',
  'RATE_LIMITED',
  'IDEMPOTENCY_IN_FLIGHT',
  'GOVERNANCE_UNAVAILABLE',
])

const WORKING: ReadonlySet<unknown> = new Set(['submitted', 'working', 'input-required', 'auth-required'])

function retrySeconds(given: unknown): number {
  return typeof given === 'number' && given >= 1 ? Math.min(given, MAX_RETRY_SECONDS) : RETRY_SECONDS
}

/** The upstream's refusal in our words. */
export function upstreamRefusal(upstream: string, code: string): AdcpError {
  const details = { upstream, ...(/^[A-Z][A-Z0-9_]{0,63}$/.test(code) && { upstream_code: code }) }
  if (OURS.test(code)) {
    return adcpError('SERVICE_UNAVAILABLE', 'The upstream that offers this does not let this agent in.', {
      retry_after: RETRY_SECONDS,
      details,
    })
  }
  const ours = PASSED_ON.has(code) ? (code as ErrorCode) : 'INVALID_REQUEST'
  return adcpError(ours, 'The upstream that offers this refused the request.', {
    details,
    suggestion: 'See details.upstream_code; read the signal again with get_signals before another attempt.',
  })
}

function firstCode(errors: unknown): string | undefined {
  const [first] = Array.isArray(errors) ? errors : []
  const { code, severity } = (first ?? {}) as Record<string, unknown>
  return severity === 'warning' ? undefined : typeof code === 'string' ? code : first && 'UNSPECIFIED'
}

function fromError(upstream: string, code: string, recovery: unknown, retryAfter: unknown): Understood {
  if (UNDECIDED.has(code) || recovery === 'transient') {
    return { kind: 'unknown', retryAfter: retrySeconds(retryAfter) }
  }
  return { kind: 'refused', error: upstreamRefusal(upstream, code) }
}

/** `errorsRefuse`: whether `errors[]` in the payload means that nothing was done (schema activate-signal-response). */
export function understand(upstream: string, outcome: CallOutcome, errorsRefuse: boolean): Understood {
  if (outcome.kind === 'failed') {
    if (!NOT_MADE.has(outcome.reason)) return { kind: 'unknown', retryAfter: RETRY_SECONDS }
    const message = 'The upstream that offers this cannot be reached with what this agent has.'
    const details = { upstream, reason: outcome.reason }
    return { kind: 'refused', error: adcpError('SERVICE_UNAVAILABLE', message, { retry_after: 60, details }) }
  }
  if (outcome.kind === 'error') {
    return fromError(upstream, outcome.code, outcome.recovery, outcome.retryAfterSeconds)
  }
  const { payload } = outcome
  const code = errorsRefuse ? firstCode(payload.errors) : undefined
  if (code !== undefined) return fromError(upstream, code, undefined, undefined)
  if (WORKING.has(payload.status) && typeof payload.task_id === 'string') {
    return { kind: 'submitted', taskId: payload.task_id }
  }
  return { kind: 'done', payload }
}
