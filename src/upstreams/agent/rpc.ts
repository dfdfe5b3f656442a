/**
 * One JSON-RPC request over HTTP: the answer may come as JSON or as an event stream that need not end
 * (docs/protocol.md#mcp, #how-agents-differ), and an HTTP status becomes one of our failure words.
 */
import { pause, systemClock } from '../../net/clock.js'
import {
  askedWaitMs,
  type Reply,
  type Send,
  type SendFailed,
  type SendFailure,
  type SendOutcome,
} from '../../net/send.js'
import type { RowBounds } from '../rows/read-rows.js'
import {
  type AgentError,
  type AgentOutcome,
  type Budget,
  type CallFailure,
  callFailed,
  remaining,
} from './agent.js'
import { type AnswerForm, agentError, holdsResponse, type ReadAnswer } from './answer.js'
import { createEventStream, type EventStream, isEventStream, type MessageKind } from './event-stream.js'
import { readReply, SMALL_BYTES } from './readers.js'
import type { ListedTool } from './tool-list.js'

const RETRY_MS = 500 // when the server does not say how long to wait
const MAX_STREAMS = 100 // at half a second each they outlast the usual deadline; without a wait they are a loop
const MAX_MISSES = 3 // connections in a row that bring nothing
const MISSES: ReadonlySet<SendFailure> = new Set(['unreachable', 'broken_body'])
const UNAVAILABLE = new Set([408, 429, 500, 502, 503, 504])

/** Decoded bytes of one answer: a page of one hundred rows of the largest size that we keep. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024
const MAX_SHORT_BYTES = 1024 * 1024 // of a handshake or a list of tools

/**
 * Of every message that is posted: some agents refuse an `accept` without both (docs/protocol.md#how-agents-differ).
 */
export const RPC_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

const FROM_NETWORK = {
  refused: 'refused',
  unresolvable: 'unresolvable',
  unreachable: 'unreachable',
  not_http: 'protocol_error',
  timeout: 'timeout',
  too_large: 'too_large',
  crowded_out: 'over_memory',
  bad_redirect: 'protocol_error',
  broken_body: 'unreachable',
  aborted: 'aborted',
} as const

export type AgentRequest = {
  url: string
  headers: Record<string, string>
  method: string
  params?: unknown
  /** It changes nothing at the agent. */
  isRead: boolean
  budget: Budget
  /** What the result is. */
  as: AnswerForm
  bounds?: RowBounds
  /** An event stream that ends before the response is resumed where it gave event ids. */
  resumable?: boolean
}

export type RpcOutcome =
  | { kind: 'handshake'; version?: string; headers: Record<string, string> }
  | { kind: 'tools'; tools: readonly ListedTool[] | undefined }
  /** Asked for as an AdCP answer. `pending`: the A2A task that is still worked on. */
  | { kind: 'answer'; outcome: AgentOutcome; pending?: string }
  | { kind: 'rpc_error'; code: number; message: string; status: number }
  | (CallFailure & { status?: number })

/** A request without an HTTP answer, in the words for upstreams. */
export function networkFailure({ reason, message }: SendFailed): CallFailure {
  return callFailed(FROM_NETWORK[reason], message)
}

/** Our word for an HTTP status that is no success; undefined when the body decides. */
export function statusFailure(
  { status, headers }: Pick<Reply, 'status' | 'headers'>,
  now: number,
): CallFailure | undefined {
  const wait = askedWaitMs(headers, now)
  if (status === 401 || status === 403) return callFailed('unauthorized', `HTTP ${status}`)
  if (status === 429) return callFailed('rate_limited', 'HTTP 429', wait)
  if (status >= 500 || status === 408) return callFailed('server_error', `HTTP ${status}`, wait)
  return undefined
}

export const UNKNOWN_METHOD = -32601
const WORDS_OF_RPC: Readonly<Record<number, string>> = {
  [UNKNOWN_METHOD]: 'NOT_IMPLEMENTED',
  [-32602]: 'INVALID_REQUEST',
  [-32600]: 'INVALID_REQUEST',
}

/** A JSON-RPC error as an AdCP error, for outcomes where the agent understood us and said no. */
function errorOfRpc(code: number, message: string): AgentError {
  return { ...agentError(WORDS_OF_RPC[code] ?? `JSONRPC_${code}`, message), rpcCode: code }
}

/** What a request for an AdCP answer came to. */
export function answerOf(outcome: RpcOutcome): AgentOutcome {
  if (outcome.kind === 'answer') return outcome.outcome
  if (outcome.kind === 'rpc_error') return { kind: 'error', error: errorOfRpc(outcome.code, outcome.message) }
  return outcome.kind === 'failed'
    ? outcome
    : callFailed('protocol_error', 'something else than an answer was asked for')
}

/** The stream ended, and neither our budget nor an HTTP error ended it. */
function brokeOff(reply: SendOutcome): boolean {
  return reply.kind === 'reply' ? reply.status === 200 : reply.reason === 'broken_body'
}

/** JSON is UTF-8 (RFC 8259, section 8.1). Texts in wider units hold other words for whoever believes the header. */
function isWide({ headers }: Pick<Reply, 'headers'>): boolean {
  return /charset\s*=\s*"?(utf-?(16|32)|ucs-?[24])/i.test(headers['content-type'] ?? '')
}

function outcomeOf(reading: ReadAnswer, { status, headers }: Pick<Reply, 'status' | 'headers'>): RpcOutcome {
  if (reading.kind === 'none') {
    return { ...callFailed('protocol_error', `HTTP ${status} without a JSON-RPC answer`), status }
  }
  if (reading.kind === 'too_large') return { ...callFailed('too_large', reading.message), status }
  if (reading.kind === 'no_room') return { ...callFailed('over_memory', reading.message), status }
  if (reading.kind === 'rpc_error') return { ...reading, status }
  return reading.kind === 'handshake' ? { ...reading, headers } : reading
}

const ID = '"id"'
const ENDS = ['"result"', '"error"']

/**
 * Whether a message of a stream that `holds` these words may be the response to request `id`. A message without a result and an
 * error cannot be, and is not parsed, because a stream may bring thousands of messages. A large message is not parsed here
 * either: it is taken for the response, and `readReply` checks it.
 */
function messageKind(message: Buffer, holds: (word: string) => boolean, id: number): MessageKind {
  if (!holds(ID)) return 'other'
  const isAnswer = ENDS.some(holds)
  if (message.byteLength <= SMALL_BYTES) return isAnswer && holdsResponse(message, id) ? 'last' : 'other'
  return isAnswer ? 'last' : 'candidate'
}

type Broken = {
  send: Send
  url: string
  /** Those of the request, with the session that its answer may have opened. */
  headers: Record<string, string>
  events: EventStream
  /** The request's own, begun at `startedAt`. */
  budget: Budget
  startedAt: number
  /** Of all streams together. */
  maxBytes: number
}

/**
 * Fetches a response whose event stream ended before it arrived (MCP 2025-03-26 to 2025-11-25, "Resumability and
 * Redelivery"). Servers may close such a stream on purpose and expect the client to resume. The request is not repeated, because
 * it may have had its effect. Undefined when the response cannot be had this way: how the first stream ended is then the outcome.
 */
async function resume(
  broken: Broken,
): Promise<{ kind: 'response'; messages: readonly Uint8Array[] } | SendFailed | undefined> {
  const { send, url, headers, events, budget, startedAt, maxBytes } = broken
  const timeLeft = () => remaining(budget, startedAt).timeoutMs
  let misses = 0
  for (let streams = 0; streams < MAX_STREAMS && misses < MAX_MISSES; streams++) {
    const id = events.lastEventId()
    if (id === undefined) return undefined
    const waitMs = events.retryMs() ?? RETRY_MS
    if (waitMs >= timeLeft()) {
      return {
        kind: 'failed',
        reason: 'timeout',
        message: 'the agent wants to be asked again after the time is up',
      }
    }
    await pause(systemClock, waitMs, budget.signal) // who aborts ends the request below
    const reply = await send({
      url,
      headers: { ...headers, accept: 'text/event-stream', 'last-event-id': id },
      timeoutMs: timeLeft(),
      maxBytes: Math.max(1, maxBytes - events.bytes()),
      redirects: 'same-site',
      ...(budget.signal && { signal: budget.signal }),
      enough: ({ headers }) => (isEventStream(headers) ? events.begin() : undefined),
    })
    const messages = events.end()
    if (messages.length > 0) return { kind: 'response', messages }
    if (reply.kind === 'failed' && !MISSES.has(reply.reason)) return reply
    const isOpen = reply.kind === 'reply' && reply.status === 200 && isEventStream(reply.headers)
    if (reply.kind === 'reply' && !isOpen && !UNAVAILABLE.has(reply.status)) return undefined
    misses = isOpen || events.lastEventId() !== id ? 0 : misses + 1
  }
  return undefined
}

/** Gives the function that sends one request; ids are unique among its requests. */
export function createRpc(send: Send) {
  let lastId = 0

  return async function post(request: AgentRequest): Promise<RpcOutcome> {
    const { url, headers, method, params, isRead, budget, as, bounds = {}, resumable } = request
    const id = ++lastId
    const startedAt = Date.now()
    const isShort = as === 'handshake' || as === 'tools'
    const maxBytes = isShort ? MAX_SHORT_BYTES : (bounds.answerBytes ?? MAX_ANSWER_BYTES)
    const events = createEventStream(maxBytes, (message, holds) => messageKind(message, holds, id), [
      ID,
      ...ENDS,
    ])
    const read = (messages: readonly Uint8Array[], areAlone: boolean) =>
      readReply(url, { messages, id, as, bounds }, areAlone)
    const opened: { headers?: Record<string, string> } = {} // of an event stream, also of one that breaks off
    const reply = await send({
      url,
      method: 'POST',
      headers: { ...RPC_HEADERS, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) }),
      timeoutMs: budget.timeoutMs,
      maxBytes,
      redirects: 'same-site',
      isRead,
      ...(budget.signal && { signal: budget.signal }),
      ...(budget.isAwaited && { isAwaited: true }),
      mayBegin: budget.mayBegin,
      enough(answer) {
        if (statusFailure(answer, Date.now())) return () => true // its body is not read
        if (!isEventStream(answer.headers)) return undefined
        opened.headers = answer.headers
        return events.begin()
      },
    })
    const messages = events.end()
    if (resumable && opened.headers && messages.length === 0 && brokeOff(reply)) {
      const session = opened.headers['mcp-session-id']
      const resumed = await resume({
        ...{ send, url, events, budget, startedAt, maxBytes },
        headers: { ...headers, ...(session && { 'mcp-session-id': session }) },
      })
      if (resumed?.kind === 'failed') return networkFailure(resumed)
      if (resumed)
        return outcomeOf(await read(resumed.messages, true), { status: 200, headers: opened.headers })
    }
    if (reply.kind === 'failed') return networkFailure(reply)
    const failure = statusFailure(reply, Date.now())
    if (failure) return { ...failure, status: reply.status }
    if (isWide(reply)) return callFailed('protocol_error', 'JSON in another encoding than UTF-8')
    const isStream = opened.headers !== undefined
    return outcomeOf(await read(isStream ? messages : [reply.body], isStream), reply)
  }
}
