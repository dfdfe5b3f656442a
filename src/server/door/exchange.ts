/**
 * One request and the response to it, whoever took them from the socket: Fastify, or the fast lane before it
 * (server/fast-lane.ts).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

export type Exchange = {
  readonly raw: IncomingMessage
  /** Absent where a request has none. */
  readonly body?: unknown
  readonly response: ServerResponse
  /** Of the request, for log lines and for its sender. */
  readonly id: string
  /** Whether the server takes further connections: one that closes does not. */
  isListening(): boolean
}

/** The exchange of a request that Fastify has read; the reply is ours from here on. */
export function exchangeOf(reply: FastifyReply): Exchange {
  const { raw, body, id } = reply.request
  const { server } = reply.server
  reply.hijack()
  return { raw, body, response: reply.raw, id, isListening: () => server.listening }
}
