/**
 * The routes beside the two transports, each for who asks there: whoever verifies our signatures (/.well-known/jwks.json,
 * /.well-known/brand.json), upstreams that notify changes of their feeds (POST /events, docs/events.md), and operators, who
 * have an upstream read before its time (POST /refresh) or ask why a signal or an upstream is, or is not, in the feed
 * (GET /explain).
 */
import type { FastifyInstance } from 'fastify'
import { tryParseJson } from '../adcp/json.js'
import { compileCheck, fieldOf, Type } from '../adcp/schema.js'
import type { Destination } from '../adcp/signal.js'
import { GetSignalsRequest, selectionOf } from '../adcp/signal-requests.js'
import type { Received } from '../events/listener.js'
import type { ReceiverReply } from '../events/receiver.js'
import { publicJwk, type SigningKey } from '../signing/key.js'
import { etagOf, sendUnlessHeld } from './answer/conditional.js'
import { bodyBytes } from './answer/exchange.js'
import { sendLargeJson } from './answer/large-json.js'
import { type AddressOf, type Door, enterOperator } from './door/door.js'
import { refusePlainly, SIGNATURE_REQUIRED } from './door/turned-away.js'
import { type BadParameter, type Parameter, readQuery } from './parameters.js'

const MAX_AGE = 'public, max-age=300'
const KEYS_PATH = '/.well-known/jwks.json'
const BRAND_PATH = '/.well-known/brand.json'
const MAX_REF = 4_096 // characters

/** What a get_signals request may ask, by the same rules. */
const checkSelection = compileCheck(Type.Pick(GetSignalsRequest, ['filters', 'destinations', 'countries']))

const UNKNOWN_READER: Record<'no_caller' | 'no_account', BadParameter> = {
  no_caller: { error: 'Invalid caller: no caller of the configuration has this id', parameter: 'caller' },
  no_account: { error: 'Invalid account: the caller has no account of this id', parameter: 'account' },
}

const EXPLAIN_PARAMETERS: readonly Parameter[] = [
  ...['ref', 'caller', 'account', 'filters', 'destinations'].map((name) => ({ name })),
  { name: 'country', many: true },
]

type IdentityOptions = { publicUrl: string; key: SigningKey }

export type FeedEventsOptions = {
  receive(received: Received): Promise<ReceiverReply>
  addressOf: AddressOf
}

export type RefreshOptions = {
  door: Door
  /** Starts the reading for the operator `who`; false when there is no upstream of this id. */
  refresh(id: string, who: string): Promise<boolean>
}

type ExplainQuestion = {
  ref: string
  /** Whose request misses the signal, and what it asks for. */
  caller?: string
  account?: string
  filters?: Readonly<Record<string, unknown>>
  destinations?: readonly Destination[]
  countries?: readonly string[]
}

type ExplainAnswer =
  | { kind: 'explained'; explanation: object }
  | { kind: 'no_caller'; caller: string }
  | { kind: 'no_account'; account: string }

export type ExplainOptions = { door: Door; explain(question: ExplainQuestion): Promise<ExplainAnswer> }

/** One entry per url: receivers compare it byte for byte, and two entries with one url would be ambiguous. */
function brandOf(publicUrl: string) {
  const jwks_uri = new URL(KEYS_PATH, publicUrl).href
  const agent = (transport: string) => ({
    ...{ type: 'signals', id: `tributary_${transport}`, url: `${publicUrl}/${transport}`, jwks_uri },
  })
  return { version: '1.0', agents: [agent('mcp'), agent('a2a')] }
}

/** The parameter's JSON; a text that is not JSON is passed on as it is, and the check refuses it. */
function jsonOrText(text: string): unknown {
  return tryParseJson(Buffer.from(text)) ?? text
}

function badParameter(parameter: string, expected: string): BadParameter {
  return { error: `Invalid ${parameter}: ${expected}`, parameter }
}

function readExplainQuestion(params: URLSearchParams): ExplainQuestion | BadParameter {
  const ref = params.get('ref') ?? ''
  if (ref === '' || ref.length > MAX_REF) {
    return badParameter('ref', 'expected a handle, domain/signal_id, or the id or url of an upstream')
  }
  const caller = params.get('caller')
  const account = params.get('account')
  const filters = params.get('filters')
  const destinations = params.get('destinations')
  const countries = params.getAll('country').map((country) => country.toUpperCase())
  const selection = checkSelection({
    ...(filters !== null && { filters: jsonOrText(filters) }),
    ...(destinations !== null && { destinations: jsonOrText(destinations) }),
    ...(countries.length > 0 && { countries }),
  })
  if (!selection.ok) {
    const [{ pointer, message } = { pointer: '', message: 'is not valid' }] = selection.issues
    return badParameter(pointer.split('/')[1] ?? 'query', `${fieldOf(pointer)} ${message}`)
  }
  if (caller === null && (account !== null || Object.keys(selection.value).length > 0)) {
    return badParameter('caller', 'expected whose request it is, anonymous or an id of callers.keys')
  }
  return {
    ref,
    ...(caller !== null && { caller }),
    ...(account !== null && { account }),
    ...selectionOf(selection.value),
  }
}

/**
 * Where receivers of our signatures find our keys: the operator's brand.json names this agent's urls and its key set
 * (docs/protocol.md#signatures). Both are public, and are served only when there is a key to sign with.
 */
export function addIdentity(app: FastifyInstance, { publicUrl, key }: IdentityOptions): void {
  const documents = {
    [BRAND_PATH]: JSON.stringify(brandOf(publicUrl)),
    [KEYS_PATH]: JSON.stringify({ keys: [publicJwk(key)] }),
  }
  for (const [path, document] of Object.entries(documents)) {
    const etag = etagOf(document)
    app.get(path, (request, reply) => {
      reply.header('cache-control', MAX_AGE).type('application/json')
      return sendUnlessHeld(request, reply, etag, document)
    })
  }
}

/** POST /events/TOKEN. Each upstream has its own url, which no other upstream is told. */
export function addFeedEvents(app: FastifyInstance, { receive, addressOf }: FeedEventsOptions): void {
  app.post<{ Params: { token: string } }>('/events/:token', async (request, reply) => {
    const { params, raw } = request
    const answer = await receive({
      token: params.token,
      headers: raw.headersDistinct,
      body: bodyBytes(request),
      from: addressOf(raw),
    })
    return reply
      .code(answer.status)
      .headers(answer.headers ?? {})
      .type('application/json')
      .send(JSON.stringify(answer.body ?? {}))
  })
}

/** POST /refresh?upstream=ID: reads an upstream from its first row to its last, whatever its tokens say. For operators only. */
export function addRefresh(app: FastifyInstance, { door, refresh }: RefreshOptions): void {
  app.post('/refresh', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await enterOperator(door, request)
    if (who.kind === 'turned_away') return refusePlainly(reply, who)
    if (who.signature === 'required') return refusePlainly(reply, SIGNATURE_REQUIRED)
    const query = readQuery(request, [{ name: 'upstream' }])
    if (query.kind === 'bad') return reply.code(400).send(query.problem)
    const upstream = query.params.get('upstream') ?? ''
    if (await refresh(upstream, who.caller.id)) return reply.code(202).send({ upstream, reading: 'full' })
    return reply.code(404).send({ error: 'Invalid upstream: no upstream has this id', parameter: 'upstream' })
  })
}

/**
 * GET /explain?ref=...: why a signal or an upstream is, or is not, in the feed. For operators only: the answer names upstreams,
 * their troubles and what other callers see.
 */
export function addExplain(app: FastifyInstance, { door, explain }: ExplainOptions): void {
  app.get('/explain', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await enterOperator(door, request)
    if (who.kind === 'turned_away') return refusePlainly(reply, who)
    const query = readQuery(request, EXPLAIN_PARAMETERS)
    if (query.kind === 'bad') return reply.code(400).send(query.problem)
    const asked = readExplainQuestion(query.params)
    if ('error' in asked) return reply.code(400).send(asked)
    const answer = await explain(asked)
    if (answer.kind === 'explained') return sendLargeJson(reply, answer.explanation)
    return reply.code(400).send(UNKNOWN_READER[answer.kind])
  })
}
