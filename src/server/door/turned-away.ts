/**
 * Why a request does not get in, and how it is told so: as an HTTP error that holds the protocol's error, or as plain JSON
 * (docs/protocol.md#envelope, #mcp, #a2a).
 */
import type { FastifyReply } from 'fastify'
import { type AdcpError, adcpError } from '../../adcp/answer.js'
import { type Exchange, sendChunks } from '../answer/exchange.js'
import { rpcError } from '../answer/json-rpc.js'

export const SERVER_ERROR = -32_000
const UNAUTHENTICATED = -32_001
const RETRY_SECONDS = 2
const REQUIRED = 'request_signature_required'
const UNSIGNED = 'This request must be signed'

export type TurnedAway = {
  kind: 'turned_away'
  status: number
  code: number
  message: string
  /** Why, in a closed word for the log and the metrics. */
  reason?: string
  error?: AdcpError
  headers?: Record<string, string>
}

/** `code`: of the JSON-RPC error; 0 where none is sent. */
export function turnedAway(status: number, code: number, message: string, reason?: string): TurnedAway {
  return { kind: 'turned_away', status, code, message, reason }
}

/** 503 with Retry-After. */
export function busy(
  message: string,
  reason: 'overloaded' | 'credentials_unchecked' = 'overloaded',
): TurnedAway {
  const error = adcpError('SERVICE_UNAVAILABLE', message, {
    retry_after: RETRY_SECONDS,
    suggestion: 'Repeat the request after retry_after seconds.',
  })
  const headers = { 'retry-after': String(RETRY_SECONDS) }
  return { ...turnedAway(503, SERVER_ERROR, message, reason), error, headers }
}

/** Of requests that come too often. */
export function rateError(seconds: number, message = 'Too many requests'): AdcpError {
  return adcpError('RATE_LIMITED', `${message}.`, {
    retry_after: seconds,
    suggestion: 'Wait for retry_after seconds, then repeat the request.',
  })
}

/** 429 with Retry-After, for requests that call no task; a task answers `rateError` in its own envelope. */
export function limited(seconds: number, message = 'Too many requests', reason = 'rate_limited'): TurnedAway {
  const headers = { 'retry-after': String(seconds) }
  return {
    ...turnedAway(429, SERVER_ERROR, message, reason),
    error: rateError(seconds, message),
    headers,
  }
}

const CREDENTIAL_FAULTS = {
  missing: { message: 'Credentials are required', reason: 'no_credentials', challenge: '' },
  invalid: {
    message: 'These credentials are not valid',
    reason: 'wrong_credentials',
    challenge: ', error="invalid_token"',
  },
}

/** 401 where credentials are wrong, or needed and not there. */
export function unauthenticated(which: keyof typeof CREDENTIAL_FAULTS): TurnedAway {
  const { message, reason, challenge } = CREDENTIAL_FAULTS[which]
  return {
    ...turnedAway(401, UNAUTHENTICATED, message, reason),
    error: adcpError('AUTH_REQUIRED', `${message}.`, {
      suggestion: 'Send Authorization: Bearer with a key of this agent.',
    }),
    headers: { 'www-authenticate': `Bearer realm="tributary"${challenge}` },
  }
}

function signatureError(message: string, code: string): AdcpError {
  return adcpError('AUTH_REQUIRED', `${message}: ${code}.`, {
    suggestion: 'Sign the request as RFC 9421 and the request-signing profile of the protocol say.',
  })
}

/** 401 with the protocol's word for what is wrong. */
export function badSignature(code: string): TurnedAway {
  const message = code === REQUIRED ? UNSIGNED : 'The signature of this request does not stand'
  return {
    ...turnedAway(401, UNAUTHENTICATED, message, 'signature'),
    error: signatureError(message, code),
    headers: { 'www-authenticate': `Signature error="${code}"` },
  }
}

/** For what changes something and is asked by a caller that must sign. */
export const SIGNATURE_REQUIRED = badSignature(REQUIRED)
/** The same for a task, which answers it in its own envelope. */
export const UNSIGNED_ERROR = signatureError(UNSIGNED, REQUIRED)

/** For whoever asks without a key what only callers with one may. */
export const NEEDS_KEY: TurnedAway = {
  ...unauthenticated('missing'),
  message: 'This needs the key of a caller',
}
/** For a caller with a key that asks what only operators may. */
export const NEEDS_OPERATOR = turnedAway(403, 0, 'This needs a key with role: operator')

/** A request to a transport that did not get in. */
export function sendTurnedAway(
  exchange: Exchange,
  { status, code, message, error, headers = {} }: TurnedAway,
): void {
  const data = error && { status: 'failed', adcp_error: error, errors: [error] }
  const body = rpcError('null', code, message, data)
  const written = ['content-type', 'application/json; charset=utf-8', ...Object.entries(headers).flat()]
  sendChunks(exchange, status, written, [body])
}

/** A request that did not get in, answered as plain JSON: for endpoints that speak no agent protocol. */
export function refusePlainly(reply: FastifyReply, { status, message, headers }: TurnedAway): FastifyReply {
  return reply
    .code(status)
    .headers(headers ?? {})
    .send({ error: message })
}
