/**
 * MCP Streamable HTTP at POST /mcp, stateless (docs/protocol.md#mcp). Tool calls are answered here from prepared
 * bytes; the rest goes to the official server. The HTTP duties of the transport (Accept, protocol version, batches)
 * are kept here for both, so that they are one set of rules.
 */
import type { FastifyInstance } from 'fastify'
import { didYouMean } from '../../adcp/issue-words.js'
import { nextPortion } from '../../process/portion-turns.js'
import type { BodyReader } from '../answer/body-reader.js'
import {
  asBytes,
  type Chunk,
  type Exchange,
  type FastLane,
  quoted,
  sendChunks,
  wrapped,
} from '../answer/exchange.js'
import { type GzipPages, takesGzip } from '../answer/gzip.js'
import {
  INVALID_MESSAGE,
  INVALID_PARAMS,
  type RpcMessage,
  type RpcRequest,
  rpcError,
  rpcOpening,
} from '../answer/json-rpc.js'
import type { AnswerPayload } from '../answer/payload.js'
import type { Entered } from '../door/admission.js'
import { type Dispatcher, hangUpSignal, type TaskCall } from '../door/dispatcher.js'
import type { Door, RareTurns } from '../door/door.js'
import type { Overload } from '../door/overload.js'
import { limited, SERVER_ERROR, type TurnedAway, turnedAway } from '../door/turned-away.js'
import type { McpCold } from './mcp-cold.js'

const JSON_HEADERS = ['content-type', 'application/json', 'vary', 'Accept-Encoding']
const GZIP_HEADERS = ['content-encoding', 'gzip', ...JSON_HEADERS]
/** The revisions that the official server speaks (a test compares); its package is loaded only when it is asked. */
const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07']
/** Of a client that names none. */
const UNNAMED_REVISION = '2025-03-26'
/** From this revision on, a client reads structuredContent, and a batch is no message (docs/protocol.md#mcp). */
const STRUCTURED_SINCE = '2025-06-18'

/** Between the text of a tool result and its data. */
const BETWEEN = '}],"structuredContent":'

type McpOptions = {
  lane: FastLane
  door: Door
  dispatcher: Dispatcher
  cold: McpCold
  rareTurns: RareTurns
  overload: Overload
  gzip: GzipPages
  readBody: BodyReader
}

/** `status`: the HTTP status of an answer to messages that were read. */
type Session = { who: Entered; revision: string; exchange: Exchange; status: number }

/** The ranges that JSON is in, the closest first. */
const JSON_RANGES = ['application/json', 'application/*', '*/*']
const REFUSED = /^q\s*=\s*0(?:\.0*)?$/i

/** Whether a client takes JSON: the closest range that it names says so, and a weight of 0 refuses (RFC 9110, section 12.5.1). */
function accepts(accept = '*/*'): boolean {
  const named = new Map<string, boolean>()
  for (const part of accept.split(',')) {
    const [range = '', ...parameters] = part.split(';').map((piece) => piece.trim())
    named.set(range.toLowerCase(), !parameters.some((parameter) => REFUSED.test(parameter)))
  }
  const closest = JSON_RANGES.find((range) => named.has(range))
  return closest !== undefined && named.get(closest) === true
}

/** Nearly every client sends one of a few. */
const JSON_TAKEN = new Set([undefined, 'application/json', 'application/json, text/event-stream', '*/*'])

function revisionOf({ raw }: Exchange): string | undefined {
  const header = raw.headers['mcp-protocol-version']
  return typeof header === 'string' ? header : undefined
}

function isInitialize(message: RpcMessage): boolean {
  return message.kind === 'request' && message.method === 'initialize'
}

function isTaskCall(message: RpcMessage): boolean {
  return message.kind === 'request' && message.method === 'tools/call'
}

/** What is wrong with the request as HTTP; `initialize` negotiates its revision in the body. */
function httpFault(
  exchange: Exchange,
  messages: readonly RpcMessage[],
  isBatch: boolean,
): TurnedAway | undefined {
  const revision = revisionOf(exchange)
  const isKnown = revision === undefined || REVISIONS.includes(revision)
  if (!isKnown && !messages.some(isInitialize)) {
    const message = `This MCP-Protocol-Version is not supported; these are: ${REVISIONS.join(', ')}`
    return turnedAway(400, SERVER_ERROR, message)
  }
  if (isBatch && messages.some(isInitialize)) {
    return turnedAway(400, INVALID_MESSAGE, 'initialize is in no batch: nothing can be asked with it')
  }
  if (isBatch && revision !== undefined && revision >= STRUCTURED_SINCE) {
    return turnedAway(400, INVALID_MESSAGE, `Revision ${STRUCTURED_SINCE} and later have no batches`)
  }
  return undefined
}

/** What stands before the text of a tool result, without the id. */
const opening = ({ isError }: AnswerPayload) =>
  `,"result":{${isError ? '"isError":true,' : ''}"content":[{"type":"text","text":`
/** What stands behind the id in a tool result; a repeated answer shares it among all requests. */
const rests = new WeakMap<AnswerPayload, Chunk[]>()

function restOf(payload: AnswerPayload): Chunk[] {
  const known = rests.get(payload)
  if (known) return known
  const made = wrapped(opening(payload) + payload.words.json() + BETWEEN, payload, '}}')
  if (!payload.comesAgain) return made
  const kept = asBytes(made)
  rests.set(payload, kept)
  return kept
}

/** A tool result. Older clients read the text, so theirs holds the payload as JSON (docs/protocol.md#mcp). */
function toolResult(id: string, payload: AnswerPayload, revision: string): Chunk[] {
  const before = rpcOpening(id)
  if (revision >= STRUCTURED_SINCE) return [before, ...restOf(payload)]
  return [before, opening(payload), ...quoted(payload), ...wrapped(BETWEEN, payload, '}}')]
}

function callOf({ raw, params, comesAgain }: RpcRequest, session: Session): TaskCall | undefined {
  const { name, arguments: input } = (params ?? {}) as Record<string, unknown>
  if (typeof name !== 'string') return undefined
  return {
    task: name,
    arguments: input,
    rawContext: () => raw(['params', 'arguments', 'context']),
    contextId: undefined,
    who: session.who,
    transport: 'mcp',
    comesAgain,
    requestId: session.exchange.id,
    signal: () => hangUpSignal(session.exchange),
  }
}

function joined(answers: readonly Chunk[][]): Chunk[] {
  return ['[', ...answers.flatMap((answer, at) => (at === 0 ? answer : [',', ...answer])), ']']
}

export function addMcp(app: FastifyInstance, options: McpOptions): void {
  const { door, dispatcher, cold, rareTurns, overload, gzip, readBody } = options

  function callTool(request: RpcRequest, session: Session): Chunk[] | Promise<Chunk[]> {
    const call = callOf(request, session)
    if (!call || !dispatcher.has(call.task)) {
      const meant = didYouMean(call ? dispatcher.near(call.task) : []) || 'tools/list has them.'
      const message = `params.name is not the name of a tool of this agent. ${meant}`
      door.refused(session.exchange, 200, INVALID_PARAMS, 'unknown_tool')
      return [rpcError(request.id, INVALID_PARAMS, message)]
    }
    const payload = dispatcher.run(call)
    const result = (done: AnswerPayload) => toolResult(request.id, done, session.revision)
    return payload instanceof Promise ? overload.track(payload).then(result) : result(payload)
  }

  async function callCold({ id, message }: RpcRequest, { who, exchange }: Session): Promise<Chunk[]> {
    const { code, rest } = await cold.answer(message, () => rareTurns.next(who.bucket))
    if (code !== undefined) door.refused(exchange, 200, code)
    return [rpcOpening(id), rest]
  }

  /** Undefined for messages without an answer: notifications, and answers to questions that we did not ask. */
  function answer(message: RpcMessage, session: Session): Chunk[] | Promise<Chunk[]> | undefined {
    if (message.kind === 'invalid') {
      door.refused(session.exchange, session.status, INVALID_MESSAGE)
      return [rpcError(message.id, INVALID_MESSAGE, message.reason)]
    }
    if (message.kind !== 'request') return undefined
    return message.method === 'tools/call' ? callTool(message, session) : callCold(message, session)
  }

  /** Each message begins in a turn of its own, after the one before it: together they would stop the thread. */
  async function answerBatch(
    messages: readonly RpcMessage[],
    session: Session,
  ): Promise<Chunk[] | undefined> {
    let turn = Promise.resolve()
    const begun = messages.map((message) => {
      turn = turn.then(nextPortion)
      return turn.then(() => answer(message, session))
    })
    const answers = await Promise.all(begun)
    const given = answers.filter((one) => one !== undefined)
    return given.length > 0 ? joined(given) : undefined
  }

  function send(exchange: Exchange, chunks: Chunk[] | undefined, status = 200): void {
    const packed =
      chunks && takesGzip(exchange.raw.headers['accept-encoding']) ? gzip.pack(chunks) : undefined
    if (!chunks) sendChunks(exchange, 202, [], [])
    else if (packed) sendChunks(exchange, status, GZIP_HEADERS, packed)
    else sendChunks(exchange, status, JSON_HEADERS, chunks)
  }

  function serve(who: Entered, exchange: Exchange): void | Promise<void> {
    const body = readBody(exchange.body)
    if (body.kind === 'broken') {
      door.refused(exchange, 400, body.code)
      return send(exchange, [rpcError('null', body.code, body.reason)], 400)
    }
    const messages = body.kind === 'batch' ? body.messages : [body.message]
    const fault = httpFault(exchange, messages, body.kind === 'batch')
    if (fault) return door.turnAway(exchange, fault)
    if (!messages.every(isTaskCall)) {
      const wait = rareTurns.wait(who.bucket)
      if (wait > 0) return door.turnAway(exchange, limited(wait))
    }
    const revision = revisionOf(exchange) ?? UNNAMED_REVISION
    const status = body.kind === 'single' && body.message.kind === 'invalid' ? 400 : 200
    const session = { who, revision, exchange, status }
    if (body.kind === 'batch') return answerBatch(messages, session).then((chunks) => send(exchange, chunks))
    const chunks = answer(body.message, session)
    return chunks instanceof Promise
      ? chunks.then((done) => send(exchange, done, status))
      : send(exchange, chunks, status)
  }

  function take(exchange: Exchange): void | Promise<void> {
    const { accept } = exchange.raw.headers
    if (!JSON_TAKEN.has(accept) && !accepts(accept)) {
      return door.turnAway(exchange, turnedAway(406, SERVER_ERROR, 'Accept must allow application/json'))
    }
    return door.letIn(exchange, serve)
  }

  // No server-initiated stream and no session to end: GET and DELETE are 405 (docs/protocol.md#mcp).
  options.lane.post(app, '/mcp', take)
}
