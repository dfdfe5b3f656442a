/**
 * The routes that have an upstream read before its time: upstreams notify changes of their feeds (docs/events.md), and
 * operators ask for a reading.
 */
import type { FastifyInstance } from 'fastify'
import type { Received } from '../events/listener.js'
import type { ReceiverReply } from '../events/receiver.js'
import { type Door, enterOperator, refusePlainly } from './door/door.js'
import type { AddressOf } from './door/origin.js'
import { SIGNATURE_REQUIRED } from './door/signature-gate.js'

const NO_BODY = new Uint8Array(0)

export type FeedEventsOptions = {
  receive(received: Received): Promise<ReceiverReply>
  addressOf: AddressOf
}

/** POST /events/TOKEN. Each upstream has its own url, which no other upstream is told. */
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
