/**
 * Fetches a response whose event stream ended before it arrived (MCP 2025-03-26 to 2025-11-25, "Resumability and
 * Redelivery"). Servers may close such a stream on purpose and expect the client to resume. The request is not
 * repeated, because it may have had its effect.
 */
import { pause, systemClock } from '../../../net/clock.js'
import type { Send, SendFailed, SendFailure } from '../../../net/send.js'
import { type Budget, remaining } from '../agent.js'
import { type EventStream, isEventStream } from '../event-stream.js'

const RETRY_MS = 500 // when the server does not say how long to wait
const MAX_STREAMS = 100 // at half a second each they outlast the usual deadline; without a wait they are a loop
const MAX_MISSES = 3 // connections in a row that bring nothing
const MISSES: ReadonlySet<SendFailure> = new Set(['unreachable', 'broken_body'])
const UNAVAILABLE = new Set([408, 429, 500, 502, 503, 504])

type Broken = {
  send: Send
  url: string
  /** Those of the request, with the session that its answer may have opened. */
  headers: Record<string, string>
  events: EventStream
  /** The request's own, begun at `startedAt`. */
  budget: Budget
  startedAt: number
  /** Of all streams together. */
  maxBytes: number
}

/** Undefined when the response cannot be had this way: how the first stream ended is then the outcome. */
export async function resume(
  broken: Broken,
): Promise<{ kind: 'response'; messages: readonly Uint8Array[] } | SendFailed | undefined> {
  const { send, url, headers, events, budget, startedAt, maxBytes } = broken
  const timeLeft = () => remaining(budget, startedAt, Date.now()).timeoutMs
  let misses = 0
  for (let streams = 0; streams < MAX_STREAMS && misses < MAX_MISSES; streams++) {
    const id = events.lastEventId()
    if (id === undefined) return undefined
    const waitMs = events.retryMs() ?? RETRY_MS
    if (waitMs >= timeLeft()) {
      return {
        kind: 'failed',
        reason: 'timeout',
        message: 'the agent wants to be asked again after the time is up',
      }
    }
    await pause(systemClock, waitMs, budget.signal) // who aborts ends the request below
    const reply = await send({
      url,
      headers: { ...headers, accept: 'text/event-stream', 'last-event-id': id },
      timeoutMs: timeLeft(),
      maxBytes: Math.max(1, maxBytes - events.bytes()),
      redirects: 'same-site',
      ...(budget.signal && { signal: budget.signal }),
      enough: (answer) => (isEventStream(answer) ? events.begin() : undefined),
    })
    const messages = events.end()
    if (messages.length > 0) return { kind: 'response', messages }
    if (reply.kind === 'failed' && !MISSES.has(reply.reason)) return reply
    const isOpen = reply.kind === 'reply' && reply.status === 200 && isEventStream(reply.headers)
    if (reply.kind === 'reply' && !isOpen && !UNAVAILABLE.has(reply.status)) return undefined
    misses = isOpen || events.lastEventId() !== id ? 0 : misses + 1
  }
  return undefined
}
