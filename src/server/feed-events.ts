/** Where upstreams report changes (docs/events.md): each has its own url, which only that upstream was told. */
import type { FastifyInstance } from 'fastify'
import type { Received } from '../events/listener.js'
import type { ReceiverReply } from '../events/receiver.js'
import type { AddressOf } from './door/origin.js'

const NO_BODY = new Uint8Array(0)

export type FeedEventsOptions = {
  receive(received: Received): Promise<ReceiverReply>
  addressOf: AddressOf
}

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
