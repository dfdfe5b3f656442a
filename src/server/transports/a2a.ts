/**
 * A2A over JSON-RPC at POST /a2a, 1.0 and 0.3 on one route (docs/protocol.md#a2a). A message that names a skill is
 * answered here from the same payload as over MCP; the rest goes to the official handlers. The agent card says what we speak.
 */
import type { FastifyInstance } from 'fastify'
import { adcpError } from '../../adcp/answer.js'
import { didYouMean } from '../../adcp/issue-words.js'
import type { Task } from '../../tasks/task.js'
import type { BodyReader } from '../answer/body-reader.js'
import { etagOf, sendUnlessHeld } from '../answer/conditional.js'
import { type Chunk, type Exchange, type FastLane, sendChunks } from '../answer/exchange.js'
import { type GzipPages, takesGzip } from '../answer/gzip.js'
import {
  INVALID_MESSAGE,
  INVALID_PARAMS,
  METHOD_NOT_FOUND,
  type RpcRequest,
  rpcOpening,
} from '../answer/json-rpc.js'
import type { AnswerPayload } from '../answer/payload.js'
import type { Entered } from '../door/admission.js'
import { type Dispatcher, hangUpSignal, type TaskCall } from '../door/dispatcher.js'
import type { Door, RareTurns } from '../door/door.js'
import type { Overload } from '../door/overload.js'
import { limited } from '../door/turned-away.js'
import type { A2aCold } from './a2a-cold.js'
import {
  a2aError,
  PUSH_NOT_SUPPORTED,
  TASK_NOT_FOUND,
  UNSUPPORTED_OPERATION,
  VERSION_NOT_SUPPORTED,
} from './a2a-errors.js'
import {
  type A2aRelease,
  createTimestamps,
  isProfiled,
  METHOD_NAMES,
  methodOf,
  PROFILE,
  parameterFault,
  profileFault,
  readSkill,
  type SkillCall,
  taskResponse,
} from './a2a-message.js'
import type { A2aTasks } from './a2a-tasks.js'

const JSON_HEADERS = [
  ...['content-type', 'application/json'],
  ...['vary', 'A2A-Version, A2A-Extensions, Accept-Encoding'],
]
const SSE_HEADERS = [
  ...['content-type', 'text/event-stream', 'cache-control', 'no-cache'],
  ...['vary', 'A2A-Version, A2A-Extensions'],
]
const PLAIN = { json: JSON_HEADERS, gzip: ['content-encoding', 'gzip', ...JSON_HEADERS], events: SSE_HEADERS }
const ECHO = ['a2a-extensions', PROFILE]
/** An answer to a request that activated the profile confirms it (A2A 1.0, "Extensions"). */
const PROFILED = {
  json: [...PLAIN.json, ...ECHO],
  gzip: [...PLAIN.gzip, ...ECHO],
  events: [...PLAIN.events, ...ECHO],
}
/** A patch level does not count (A2A 1.0, section 3.6); what names nothing means 0.3. */
const SPOKEN = /^(?:(?:1\.0|0\.3)(?:\.\d+)?)?$/
const NO_PUSH =
  'A2A push notifications are not supported: send push_notification_config in the input of get_signals'
const CARD_PATHS = ['/.well-known/agent-card.json', '/.well-known/agent.json']

type AgentCardOptions = {
  publicUrl: string
  version: string
  tasks: readonly Task[]
}

type A2aOptions = {
  lane: FastLane
  door: Door
  dispatcher: Dispatcher
  cold: A2aCold
  tasks: A2aTasks
  card: object
  rareTurns: RareTurns
  overload: Overload
  gzip: GzipPages
  readBody: BodyReader
  now: () => number
}

/** The version that a request names: in its header or, instead, in its query (A2A 1.0, section 3.6.1). */
function namedVersion({ raw: { headers, url = '' } }: Exchange): string {
  const { 'a2a-version': named } = headers
  if (named !== undefined) return String(named)
  const at = url.indexOf('?')
  return at < 0 ? '' : (new URLSearchParams(url.slice(at)).get('A2A-Version') ?? '')
}

/**
 * Whether we speak the version that a request names. The method decides in which version we answer, so a client that
 * sends the header on one call and not on the next gets the same form.
 */
const isSpoken = (exchange: Exchange) => SPOKEN.test(namedVersion(exchange))

/** The owner of a caller's tasks; anonymous callers cannot be told apart. */
function ownerOf(who: Entered): string | undefined {
  return who.kind === 'caller' && who.caller.role !== 'anonymous' ? who.caller.id : undefined
}

/** One event of a stream. Line breaks can stand only between the tokens of an echoed context: a space does as well. */
function asEvent(chunks: readonly Chunk[]): Chunk[] {
  const lines = chunks.map((chunk) => (typeof chunk === 'string' ? chunk.replaceAll(/[\r\n]+/g, ' ') : chunk))
  return ['data: ', ...lines, '\n\n']
}

/**
 * The agent card, one document that 1.0 and 0.3 clients both read (docs/protocol.md#a2a). It holds no credentials and needs none
 * to be read. Built by hand: the SDK writes one form or the other.
 */
export function agentCard({ publicUrl, version, tasks }: AgentCardOptions) {
  const url = new URL('/a2a', publicUrl).href
  const modes = ['application/json', 'text/plain']
  const skills = tasks.flatMap(({ name, aliases = [], title, description, mutating }) =>
    [name, ...aliases].map((id) => ({
      id,
      name: title,
      description: `${description} Send a data part {"skill": "${id}", "input": {...}}.`,
      tags: ['adcp', 'signals', mutating ? 'write' : 'read'],
      inputModes: ['application/json'],
      outputModes: modes,
    })),
  )
  return {
    name: 'Tributary',
    description: 'Many signals agents as one verified, versioned feed, by the Ad Context Protocol.',
    version,
    url,
    preferredTransport: 'JSONRPC',
    protocolVersion: '0.3.0',
    supportedInterfaces: [
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    ],
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extensions: [
        { uri: PROFILE, description: 'Speaks the Ad Context Protocol, major version 3.', required: false },
      ],
    },
    defaultInputModes: ['application/json'],
    defaultOutputModes: modes,
    // The 0.3 form of a scheme and the 1.0 form, side by side.
    securitySchemes: {
      bearer: { type: 'http', scheme: 'bearer', httpAuthSecurityScheme: { scheme: 'Bearer' } },
    },
    security: [{ bearer: [] }],
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    skills,
  }
}

export function addA2a(app: FastifyInstance, options: A2aOptions): void {
  const timestampOf = createTimestamps()
  const { door, dispatcher, cold, tasks, rareTurns, overload, gzip, readBody, now } = options

  function callOf(
    { skill, input, rawContext, contextId, comesAgain }: SkillCall,
    who: Entered,
    exchange: Exchange,
  ): TaskCall {
    return {
      task: skill,
      arguments: input,
      rawContext,
      contextId,
      who,
      transport: 'a2a',
      comesAgain,
      requestId: exchange.id,
      signal: () => hangUpSignal(exchange),
    }
  }

  function unknownSkill(call: TaskCall): AnswerPayload {
    const error = adcpError('INVALID_REQUEST', 'The message names no skill of this agent.', {
      field: 'skill',
      suggestion:
        didYouMean(dispatcher.near(call.task)) ||
        'Send a data part {"skill": ..., "input": {...}}; the skills are in the agent card.',
    })
    return dispatcher.refused(call, error)
  }

  function run(call: TaskCall, exchange: Exchange): AnswerPayload | Promise<AnswerPayload> {
    if (!dispatcher.has(call.task)) {
      door.refused(exchange, 200, INVALID_PARAMS, 'unknown_skill')
      return unknownSkill(call)
    }
    const payload = dispatcher.run(call)
    return payload instanceof Promise ? overload.track(payload) : payload
  }

  function sendMessage(
    request: RpcRequest,
    how: { dialect: A2aRelease; isStream: boolean },
    who: Entered,
    exchange: Exchange,
  ): void | Promise<void> {
    const profiled = isProfiled(exchange, how.dialect)
    const headers = profiled ? PROFILED : PLAIN
    const fault = (code: number, message: string, reason?: string) => {
      door.refused(exchange, 200, code, reason)
      sendChunks(exchange, 200, headers.json, [a2aError(request.id, code, message, how.dialect)])
    }
    const against = profiled ? profileFault(request.params) : undefined
    if (against !== undefined) return fault(INVALID_PARAMS, against)
    const read = readSkill(request)
    if (read.kind === 'malformed') return fault(INVALID_PARAMS, read.reason)
    if (read.kind === 'continues') {
      const wait = rareTurns.wait(who.bucket)
      if (wait > 0) return door.turnAway(exchange, limited(wait))
      return tasks
        .has(ownerOf(who), read.taskId)
        .then((has) =>
          has
            ? fault(UNSUPPORTED_OPERATION, 'The task is finished: send a message without taskId')
            : fault(TASK_NOT_FOUND, 'There is no such task'),
        )
    }
    if (read.kind === 'wants_push') return fault(PUSH_NOT_SUPPORTED, NO_PUSH)
    const { skill } = read.call
    if (profiled && !dispatcher.has(skill)) {
      const meant = didYouMean(dispatcher.near(skill)) || 'The agent card lists them.'
      return fault(INVALID_PARAMS, `skill is not the id of a skill of this agent. ${meant}`, 'unknown_skill')
    }
    const finish = (payload: AnswerPayload) => {
      const at = now()
      const answered = { payload, profiled }
      const taskId = tasks.keep(ownerOf(who), answered, at)
      const chunks = taskResponse(request.id, taskId, timestampOf(at), answered, how.dialect)
      if (how.isStream) return sendChunks(exchange, 200, headers.events, asEvent(chunks))
      const packed = takesGzip(exchange.raw.headers['accept-encoding']) ? gzip.pack(chunks) : undefined
      if (packed) return sendChunks(exchange, 200, headers.gzip, packed)
      return sendChunks(exchange, 200, headers.json, chunks)
    }
    const payload = run(callOf(read.call, who, exchange), exchange)
    return payload instanceof Promise ? payload.then(finish) : finish(payload)
  }

  async function callCold(
    { id, message }: RpcRequest,
    dialect: A2aRelease,
    who: Entered,
    exchange: Exchange,
  ) {
    await rareTurns.next(who.bucket)
    const { isStream, responses } = await cold.answer(message, dialect, ownerOf(who))
    for (const { code } of responses) if (code !== undefined) door.refused(exchange, 200, code)
    const answers = responses.map(({ rest }) => [rpcOpening(id), rest])
    if (isStream) return sendChunks(exchange, 200, SSE_HEADERS, answers.flatMap(asEvent))
    sendChunks(exchange, 200, JSON_HEADERS, answers.flat())
  }

  function serve(who: Entered, exchange: Exchange): void | Promise<void> {
    const body = readBody(exchange.body)
    const fault = (status: number, id: string, code: number, reason: string, words: A2aRelease = '1.0') => {
      door.refused(exchange, status, code)
      sendChunks(exchange, status, JSON_HEADERS, [a2aError(id, code, reason, words)])
    }
    if (body.kind === 'broken') return fault(400, 'null', body.code, body.reason)
    if (body.kind === 'batch') return fault(400, 'null', INVALID_MESSAGE, 'A2A has no batches')
    const { message } = body
    if (message.kind === 'invalid') return fault(400, message.id, INVALID_MESSAGE, message.reason)
    if (message.kind !== 'request') return fault(400, 'null', INVALID_MESSAGE, 'A message must be a request')
    if (!isSpoken(exchange)) {
      return fault(
        200,
        message.id,
        VERSION_NOT_SUPPORTED,
        'This A2A version is not supported; 1.0 and 0.3 are',
      )
    }
    const method = methodOf(message.method)
    if (method?.kind === 'send') return sendMessage(message, method, who, exchange)
    const wait = rareTurns.wait(who.bucket)
    if (wait > 0) return door.turnAway(exchange, limited(wait))
    if (method?.kind === 'push') {
      return fault(200, message.id, PUSH_NOT_SUPPORTED, NO_PUSH, method.dialect)
    }
    const wrong = parameterFault(message.message.params)
    if (method && wrong !== undefined) return fault(200, message.id, INVALID_PARAMS, wrong)
    if (method) return callCold(message, method.dialect, who, exchange)
    const known = `A2A has no such method; it has ${METHOD_NAMES.join(', ')}`
    return fault(200, message.id, METHOD_NOT_FOUND, known)
  }

  options.lane.post(app, '/a2a', (exchange) => door.letIn(exchange, serve))

  const card = JSON.stringify(options.card)
  const etag = etagOf(card)
  for (const path of [...CARD_PATHS, ...CARD_PATHS.map((one) => `/a2a${one}`)]) {
    app.get(path, (request, reply) => {
      reply.header('cache-control', 'public, max-age=300').type('application/json')
      return sendUnlessHeld(request, reply, etag, card)
    })
  }
}
