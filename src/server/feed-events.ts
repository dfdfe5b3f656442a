/** Where upstreams report changes (docs/events.md): each has its own url, which only that upstream was told. */
import type { FastifyInstance } from 'fastify'
import type { Received } from '../events/listener.js'
import type { ReceiverReply } from '../events/receiver.js'

const NO_BODY = new Uint8Array(0)

export type FeedEventsOptions = { receive(received: Received): Promise<ReceiverReply> }

export function addFeedEvents(app: FastifyInstance, { receive }: FeedEventsOptions): void {
  app.post<{ Params: { token: string } }>('/events/:token', async (request, reply) => {
    const body = request.body instanceof Uint8Array ? request.body : NO_BODY
    const { token } = request.params
    const answer = await receive({ token, headers: request.raw.headersDistinct, body })
    return reply
      .code(answer.status)
      .headers(answer.headers ?? {})
      .type('application/json')
      .send(JSON.stringify(answer.body ?? {}))
  })
}
