/**
 * From a transport's result to an AdCP answer or error, over every shape that agents were seen to use
 * (docs/protocol.md#envelope, #mcp, #how-agents-differ): `adcp_error`, `errors[]` with a failed status, plain text,
 * bare results.
 */
import { isRecord } from '../../adcp/json.js'
import { boundedText, tryParseJson } from '../rows/json.js'
import { isCut, type Skimmed } from '../rows/skim.js'
import type { AgentError, AgentOutcome, Payload } from './agent.js'
import { callFailed } from './agent.js'

const MAX_TEXT = 8 * 1024 * 1024
const MAX_MESSAGE = 500
const MAX_CODE = 64
const MAX_DETAILS = 8_192 // characters of JSON
const MAX_RETRY_AFTER_S = 24 * 60 * 60
const FAILED = new Set(['failed', 'rejected', 'canceled', 'auth-required', 'input-required'])
const RECOVERIES = ['correctable', 'transient', 'terminal'] as const

/** What a transport found in its envelope: the payload or a text, and whether the envelope calls it a failure. */
export type Found = { payload?: Payload; text?: string; failed: boolean }

/** The object that a text part is; undefined for a message to people. */
export function objectIn(text: string): Record<string, unknown> | undefined {
  if (text.length > MAX_TEXT || !/^\s*\{/.test(text)) return undefined
  const value = tryParseJson(Buffer.from(text))
  return isRecord(value) ? value : undefined
}

/** Frameworks put what a function gave under one key of theirs: `result`, or `response` beside the function's name. */
export function unwrapped(payload: Record<string, unknown>): Record<string, unknown> {
  const { id: _, name: __, ...given } = payload
  const [inner, ...others] = Object.entries(given)
  if (!inner || others.length > 0 || !isRecord(inner[1])) return payload
  return inner[0] === 'result' || inner[0] === 'response' ? unwrapped(inner[1]) : payload
}

export function agentError(code: string, message: string): AgentError {
  return { code: code.slice(0, MAX_CODE), message: message.slice(0, MAX_MESSAGE) }
}

function isSmall(details: unknown): details is Record<string, unknown> {
  return isRecord(details) && JSON.stringify(details).length <= MAX_DETAILS
}

function readError(raw: Record<string, unknown>): AgentError {
  const seconds = Number(raw.retry_after)
  const field = boundedText(raw.field, 200)
  const recovery = RECOVERIES.find((word) => word === raw.recovery)
  return {
    code: boundedText(raw.code, MAX_CODE) ?? 'UNKNOWN',
    message: boundedText(raw.message) ?? 'no message',
    ...(field && { field }),
    ...(recovery && { recovery }),
    ...(seconds > 0 && { retryAfterMs: Math.min(seconds, MAX_RETRY_AFTER_S) * 1_000 }),
    ...(isSmall(raw.details) && { details: raw.details }),
  }
}

/** The error a payload reports, wherever it reports it; undefined when it is an answer. */
function errorIn({ payload, text, failed }: Found): AgentError | undefined {
  if (isRecord(payload?.adcp_error)) return readError(payload.adcp_error)
  const reports = failed || FAILED.has(String(payload?.status))
  if (!reports) return undefined
  const first = Array.isArray(payload?.errors) ? payload.errors.find(isRecord) : undefined
  if (first) return readError(first)
  if (isRecord(payload?.error)) return readError(payload.error)
  return agentError('TOOL_ERROR', boundedText(payload?.message) ?? boundedText(text) ?? 'no message')
}

function hasCut(payload: Payload | undefined): boolean {
  return isCut(payload?.signals)
}

export function encodeRows(signals: unknown): Uint8Array[] {
  return Array.isArray(signals) ? signals.map((row) => Buffer.from(JSON.stringify(row))) : []
}

/** `locate` finds the payload in the transport's message; undefined when the message has no known shape. */
export function readAnswer(skimmed: Skimmed, locate: (message: unknown) => Found | undefined): AgentOutcome {
  let found = locate(skimmed.value)
  const rowsAreCut = hasCut(found?.payload)
  if (!rowsAreCut && skimmed.rows.length > 0) found = locate(skimmed.whole())
  if (!found) return callFailed('protocol_error', 'the answer has no shape that any dialect reads')
  const error = errorIn(found)
  if (error) return { kind: 'error', error }
  if (!found.payload) return callFailed('protocol_error', 'the answer carries no object')
  if (rowsAreCut) return { kind: 'answer', payload: { ...found.payload, signals: [] }, rows: skimmed.rows }
  const rows = encodeRows(found.payload.signals)
  return { kind: 'answer', payload: rows.length ? { ...found.payload, signals: [] } : found.payload, rows }
}
