/** The small routes besides the two transports: our keys for whoever verifies us, upstreams' reports, an operator's reading. */
import type { FastifyInstance } from 'fastify'
import type { Received } from '../events/listener.js'
import type { ReceiverReply } from '../events/receiver.js'
import { publicJwk, type SigningKey } from '../signing/sign.js'
import { type Door, enterOperator, refusePlainly } from './door/door.js'
import type { AddressOf } from './door/origin.js'
import { SIGNATURE_REQUIRED } from './door/signature-gate.js'

const MAX_AGE = 'public, max-age=300'
const KEYS_PATH = '/.well-known/jwks.json'
const BRAND_PATH = '/.well-known/brand.json'

type IdentityOptions = { publicUrl: string; key: SigningKey }

/** One entry per url: receivers compare it byte for byte, and two entries with one url would be ambiguous. */
function brandOf(publicUrl: string) {
  const jwks_uri = new URL(KEYS_PATH, publicUrl).href
  const agent = (transport: string) => ({
    ...{ type: 'signals', id: `tributary_${transport}`, url: `${publicUrl}/${transport}`, jwks_uri },
  })
  return { version: '1.0', agents: [agent('mcp'), agent('a2a')] }
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
    app.get(path, (_request, reply) =>
      reply.header('cache-control', MAX_AGE).type('application/json').send(document),
    )
  }
}

const NO_BODY = new Uint8Array(0)

export type FeedEventsOptions = {
  receive(received: Received): Promise<ReceiverReply>
  addressOf: AddressOf
}

/** Where upstreams report changes (docs/events.md): each has its own url, which only that upstream was told. */
export function addFeedEvents(app: FastifyInstance, { receive, addressOf }: FeedEventsOptions): void {
  app.post<{ Params: { token: string } }>('/events/:token', async (request, reply) => {
    const body = request.body instanceof Uint8Array ? request.body : NO_BODY
    const { token } = request.params
    const { raw } = request
    const answer = await receive({ token, headers: raw.headersDistinct, body, from: addressOf(raw) })
    return reply
      .code(answer.status)
      .headers(answer.headers ?? {})
      .type('application/json')
      .send(JSON.stringify(answer.body ?? {}))
  })
}

export type RefreshOptions = {
  door: Door
  /** Starts the reading for the operator `who`; false when there is no upstream of this id. */
  refresh(id: string, who: string): Promise<boolean>
}

/** POST /refresh?upstream=ID: reads an upstream from its first row to its last, whatever its tokens say. For operators only. */
export function addRefresh(app: FastifyInstance, { door, refresh }: RefreshOptions): void {
  app.post('/refresh', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await enterOperator(door, request)
    if (who.kind === 'turned_away') return refusePlainly(reply, who)
    if (who.signature === 'required') return refusePlainly(reply, SIGNATURE_REQUIRED)
    const upstream = new URL(request.url, 'http://localhost').searchParams.get('upstream') ?? ''
    if (await refresh(upstream, who.caller.id)) return reply.code(202).send({ upstream, reading: 'full' })
    return reply.code(404).send({ error: 'Invalid upstream: no upstream has this id', parameter: 'upstream' })
  })
}
