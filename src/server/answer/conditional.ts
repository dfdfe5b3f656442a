/**
 * Documents that clients ask for again and again, and are sent only to who does not have them (RFC 9110, section 13.1.2). Their
 * tags are weak, because a document goes out with gzip and without.
 */
import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'

const TAG_LETTERS = 27

export function etagOf(body: string | Uint8Array): string {
  return `W/"${hash('sha256', body, 'base64url').slice(0, TAG_LETTERS)}"`
}

/** Whether a client has what has this tag, by its If-None-Match. */
function matches(condition: string | undefined, etag: string): boolean {
  if (condition === undefined) return false
  const bare = (tag: string) => tag.trim().replace(/^W\//, '')
  return condition.trim() === '*' || condition.split(',').some((tag) => bare(tag) === bare(etag))
}

/** Sends a document, or 304. HEAD is told the length that GET would have with 200, and no other (RFC 9110, section 8.6). */
export function sendUnlessHeld(
  { method, headers }: Pick<FastifyRequest, 'method' | 'headers'>,
  reply: FastifyReply,
  etag: string,
  body: string | Uint8Array,
): FastifyReply {
  reply.header('etag', etag)
  if (!matches(headers['if-none-match'], etag)) return reply.send(body)
  return reply.code(304).send(method === 'HEAD' ? body : undefined)
}
