/** A request that did not get in, answered as plain JSON: for endpoints that speak no agent protocol. */
import type { FastifyReply } from 'fastify'
import type { TurnedAway } from './door.js'

export function refusePlainly(reply: FastifyReply, { status, message, headers }: TurnedAway): FastifyReply {
  return reply
    .code(status)
    .headers(headers ?? {})
    .send({ error: message })
}
