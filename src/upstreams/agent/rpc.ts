/**
 * One JSON-RPC request over HTTP: the answer may come as JSON or as an event stream that need not end
 * (docs/protocol.md#mcp, #how-agents-differ), and an HTTP status becomes one of our failure words.
 */
import { isRecord } from '../../adcp/json.js'
import type { Failed, Reply, Send, SendOutcome } from '../../net/send.js'
import { boundedText } from '../rows/json.js'
import { type Skimmed, skim } from '../rows/skim.js'
import { type AgentError, type Budget, type CallFailure, callFailed } from './agent.js'
import { agentError } from './answer.js'
import { createEventStream, isEventStream } from './event-stream.js'
import { resume } from './resume.js'

/** Decoded bytes of one answer; a page of one hundred rows of the largest size we keep fits several times. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024
const MAX_RETRY_AFTER_MS = 60 * 60 * 1_000

/**
 * Of every message that is posted: some agents refuse an `accept` without both (docs/protocol.md#how-agents-differ).
 */
export const RPC_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

export type RpcRequest = {
  url: string
  headers: Record<string, string>
  method: string
  params?: unknown
  budget: Budget
  /** An event stream that ends before the response is resumed where it gave event ids. */
  resumable?: boolean
}

export type RpcOutcome =
  | { kind: 'result'; skimmed: Skimmed; headers: Record<string, string> }
  | { kind: 'rpc_error'; code: number; message: string; status: number }
  | (CallFailure & { status?: number })

const FROM_NETWORK = {
  refused: 'refused',
  unresolvable: 'unresolvable',
  unreachable: 'unreachable',
  timeout: 'timeout',
  too_large: 'too_large',
  bad_redirect: 'protocol_error',
  broken_body: 'unreachable',
  aborted: 'aborted',
} as const

export function networkFailure({ reason, message }: Failed): CallFailure {
  return callFailed(FROM_NETWORK[reason], message)
}

/** Retry-After as seconds or as a date, ms from now, bounded. */
export function retryAfter(headers: Record<string, string>, now: number): number | undefined {
  const value = headers['retry-after']
  if (value === undefined) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), MAX_RETRY_AFTER_MS) : undefined
}

/** Our word for an HTTP status that is no success; undefined when the body decides. */
export function statusFailure({ status, headers }: Reply): CallFailure | undefined {
  const wait = retryAfter(headers, Date.now())
  if (status === 401 || status === 403) return callFailed('unauthorized', `HTTP ${status}`)
  if (status === 429) return callFailed('rate_limited', 'HTTP 429', wait)
  if (status >= 500 || status === 408) return callFailed('server_error', `HTTP ${status}`, wait)
  return undefined
}

function isResponse(value: unknown, id: number): value is Record<string, unknown> {
  if (!isRecord(value) || value.method !== undefined) return false
  // Some agents write the id as a text; an error before they read it carries none.
  return String(value.id) === String(id) || (value.id === null && value.error !== undefined)
}

function trySkim(bytes: Uint8Array): Skimmed | undefined {
  try {
    return skim(bytes)
  } catch {
    return undefined // not JSON: an ordinary way for an upstream to be wrong
  }
}

function readResponse(message: Uint8Array, id: number): Skimmed | undefined {
  const skimmed = trySkim(message)
  return skimmed && isResponse(skimmed.value, id) ? skimmed : undefined
}

/** As `readResponse`, and out of a batch too. */
function readJson(body: Uint8Array, id: number): Skimmed | undefined {
  const message = trySkim(body)
  if (!message) return undefined
  if (isResponse(message.value, id)) return message
  const batch = message.whole()
  const response = Array.isArray(batch) ? batch.find((each) => isResponse(each, id)) : undefined
  return response && { value: response, rows: [], whole: () => response }
}

/** A JSON-RPC error as an AdCP error, for outcomes where the agent understood us and said no. */
export function errorOfRpc(code: number, message: string): AgentError {
  if (code === -32601) return agentError('NOT_IMPLEMENTED', message)
  if (code === -32602 || code === -32600) return agentError('INVALID_REQUEST', message)
  return agentError(`JSONRPC_${code}`, message)
}

/** The stream ended, and neither our budget nor an HTTP error ended it. */
function brokeOff(reply: SendOutcome): boolean {
  return reply.kind === 'reply' ? reply.status === 200 : reply.reason === 'broken_body'
}

function understand(
  response: Skimmed | undefined,
  { status, headers }: Pick<Reply, 'status' | 'headers'>,
): RpcOutcome {
  const message = response?.value
  if (!response || !isRecord(message)) {
    return { ...callFailed('protocol_error', `HTTP ${status} without a JSON-RPC answer`), status }
  }
  if (!isRecord(message.error)) return { kind: 'result', skimmed: response, headers }
  return {
    kind: 'rpc_error',
    code: Number(message.error.code),
    message: boundedText(message.error.message) ?? 'no message',
    status,
  }
}

export function createRpc(send: Send) {
  let lastId = 0

  return async function post(request: RpcRequest): Promise<RpcOutcome> {
    const { url, headers, method, params, budget, resumable } = request
    const id = ++lastId
    const startedAt = Date.now()
    const events = createEventStream((message) => readResponse(message, id))
    const opened: { headers?: Record<string, string> } = {} // of an event stream, also of one that breaks off
    const reply = await send({
      url,
      method: 'POST',
      headers: { ...RPC_HEADERS, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) }),
      timeoutMs: budget.timeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
      redirects: 'same-site',
      ...(budget.signal && { signal: budget.signal }),
      enough(answer) {
        if (!isEventStream(answer)) return undefined
        opened.headers = answer
        return events.begin()
      },
    })
    const response = events.end()
    if (resumable && opened.headers && !response && brokeOff(reply)) {
      const session = opened.headers['mcp-session-id']
      const resumed = await resume({
        ...{ send, url, events, budget, startedAt, maxBytes: MAX_ANSWER_BYTES },
        headers: { ...headers, ...(session && { 'mcp-session-id': session }) },
      })
      if (resumed?.kind === 'failed') return networkFailure(resumed)
      if (resumed) return understand(resumed.skimmed, { status: 200, headers: opened.headers })
    }
    if (reply.kind === 'failed') return networkFailure(reply)
    const failure = statusFailure(reply)
    if (failure) return { ...failure, status: reply.status }
    return understand(opened.headers ? response : readJson(reply.body, id), reply)
  }
}

export type Rpc = ReturnType<typeof createRpc>
