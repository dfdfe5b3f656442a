/**
 * Writes an answer that is made of text and prepared bytes. The pieces are handed to the socket as they are: joining
 * them first costs two thirds of the throughput of a page (docs/decisions.md#serving-from-bytes).
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { bufferOf } from '../../adcp/json.js'
import type { AnswerPayload } from './payload.js'

/**
 * One request and its response, whether Fastify read it from the socket or the fast lane before it
 * (server/answer/fast-lane.ts).
 */
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

export type Chunk = string | Uint8Array

/** A payload between what a transport writes before and after it. */
export function wrapped(before: string, payload: AnswerPayload, after: string): Chunk[] {
  const { head, rows, tail } = payload
  if (rows.length === 0) return [before + head + tail + after]
  return [before + head, ...rows, tail + after]
}

/**
 * The payload as the inside of a JSON string, quotes included. Rows are JSON already, so only quotes and backslashes
 * can need an escape, and those are single bytes in UTF-8: Latin-1 carries all other bytes through unchanged.
 */
export function quoted(payload: AnswerPayload): Chunk[] {
  const { head, rows, tail } = payload
  const open = JSON.stringify(head).slice(0, -1)
  if (rows.length === 0) return [`${open}${JSON.stringify(tail).slice(1)}`]
  const escaped = (row: Uint8Array) =>
    Buffer.from(JSON.stringify(bufferOf(row).toString('latin1')).slice(1, -1), 'latin1')
  return [open, ...rows.map(escaped), JSON.stringify(tail).slice(1)]
}

/** All chunks as one text, for the paths that are not hot. */
export function textOf(chunks: readonly Chunk[]): string {
  return chunks.map((chunk) => (typeof chunk === 'string' ? chunk : bufferOf(chunk).toString())).join('')
}

function byteLength(chunk: Chunk): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.byteLength
}

/**
 * Sends the chunks as one response with its length declared. Text stays text until the socket, where Node writes it with
 * the header in one piece: that costs one system call less than a buffer beside it. Texts beside each other are joined
 * only then, because joining also copies: a text that is kept is measured as it is. Headers are names and values in turn.
 */
export function sendChunks(
  { response, id, isListening }: Exchange,
  status: number,
  headers: readonly string[],
  chunks: readonly Chunk[],
): void {
  let length = 0
  for (const chunk of chunks) length += byteLength(chunk)
  // A server that closes finishes this answer, and must not wait for another request on the same connection.
  if (!isListening()) response.shouldKeepAlive = false
  response.writeHead(status, ['content-length', String(length), 'x-request-id', id, ...headers])
  response.cork()
  let text = ''
  for (const chunk of chunks) {
    if (typeof chunk === 'string') text += chunk
    else {
      if (text !== '') response.write(text)
      response.write(chunk)
      text = ''
    }
  }
  response.end(text)
  response.uncork()
}
