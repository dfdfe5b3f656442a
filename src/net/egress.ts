/**
 * The one way out of the process: registries, upstreams, provider files, key sets and webhooks all use this `send`. It
 * limits where a request goes (net/addresses.ts), how long it takes and how many bytes it returns (docs/protocol.md#egress).
 */
import { EgressRefused, type Resolve, systemResolve } from './addresses.js'
import {
  createBodyReceiver,
  createReads,
  createUnderWay,
  type Reads,
  UNDER_WAY_BYTES,
  type UnderWay,
} from './body.js'
import { createDeadline, type End } from './clock.js'
import { exchange, failureOf } from './exchange.js'
import { createPlaces } from './places.js'
import { followRedirects } from './redirects.js'
import { createRoutes, type EgressPolicy, type Routes } from './routes.js'
import { failed, type Outbound, type Send, type SendFailed, type SendOutcome } from './send.js'

const CONNECTIONS_PER_ORIGIN = 32 // one origin never holds more sockets than this, if nothing else is said
const USER_AGENT = 'tributary' // many sites refuse requests without a user agent

type EgressOptions = {
  policy: EgressPolicy
  /** Resolves names to addresses; the system's resolver by default. */
  resolve?: Resolve
  /** The most sockets that one origin holds. */
  connections?: number
  /** The bound on the bytes of all answers that are being read, asked each time. */
  underWayBytes?(): number
}

export type Egress = {
  send: Send
  /** Requests use the new policy from now on; those that have a connection finish under the old one. Throws like `createEgress`. */
  reconfigure(policy: EgressPolicy): void
  /** Answers that are being read. */
  underWay: Pick<UnderWay, 'bytes' | 'givenUp'>
  close(): Promise<void>
}

function spentBy(end: End, { timeoutMs }: Outbound): SendFailed {
  return end === 'timeout'
    ? failed('timeout', `no complete answer within ${Math.round(timeoutMs)} ms`)
    : failed('aborted', 'the caller gave up')
}

type Underlying = {
  routes(): Routes
  places: ReturnType<typeof createPlaces>
  reads: Reads
  underWay: UnderWay
}

async function sendOnce(
  { routes, places, reads, underWay }: Underlying,
  request: Outbound,
): Promise<SendOutcome> {
  const url = URL.canParse(request.url) ? new URL(request.url) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return failed('refused', 'not an http(s) url')
  const deadline = createDeadline(request)
  let isTooLate = false
  const spent = () => {
    const end = deadline.why()
    if (isTooLate) return failed('timeout', 'too little time was left to send it')
    return end && spentBy(end, request)
  }
  try {
    const early = spent()
    if (early) return early
    const over = await places.take(routes().of(url).origin, deadline)
    if (typeof over === 'string') return spentBy(over, request)
    const { method = 'GET' } = request
    const asked = exchange(
      {
        path: `${url.pathname}${url.search}`,
        method,
        headers: { 'user-agent': USER_AGENT, 'accept-encoding': 'gzip', ...request.headers, host: url.host },
        body: request.body ?? null,
        bodyTimeout: 0, // undici limits idle time; the budget limits total time
      },
      {
        deadline,
        reads,
        over,
        maxBytes: request.maxBytes,
        connection(isNew) {
          const { connections, origin } = routes().of(url) // of the policy that is in force by now
          return connections.take(origin, isNew)
        },
        isRead: method === 'GET' || request.isRead === true,
        mayBegin() {
          isTooLate = request.mayBegin?.() === false
          return !isTooLate
        },
        bodyOf: (head, controls) =>
          createBodyReceiver(head.headers['content-encoding'] ?? '', {
            maxBytes: request.maxBytes,
            length: Number(head.headers['content-length'] ?? 0),
            isAwaited: request.isAwaited,
            enough: request.enough?.(head),
            begin: (giveUp) => underWay.begin(url, giveUp),
            ...controls,
          }),
      },
    )
    const answer = await Promise.race([asked, deadline.ended])
    if (typeof answer === 'string') return spentBy(answer, request)
    const { status, headers, read } = answer
    if (read.kind === 'body') return { kind: 'reply', status, headers, body: read.body, url: request.url }
    if (read.kind === 'crowded_out') return spent() ?? failed('crowded_out', 'too much is being read at once')
    return spent() ?? failed(read.kind === 'too_large' ? 'too_large' : 'broken_body', read.message)
  } catch (error) {
    return spent() ?? (error instanceof EgressRefused ? failed('refused', error.message) : failureOf(error))
  } finally {
    deadline.release()
  }
}

/** Throws when a network or an origin in the policy cannot be read. */
export function createEgress(options: EgressOptions): Egress {
  const { policy, resolve = systemResolve, underWayBytes = () => UNDER_WAY_BYTES } = options
  const { connections = CONNECTIONS_PER_ORIGIN } = options
  const underWay = createUnderWay(underWayBytes)
  const reads = createReads()
  const places = createPlaces(connections)
  const routesFor = (next: EgressPolicy) => createRoutes(next, resolve, reads)
  let routes = routesFor(policy)
  const retired = new Set<Routes>()

  return {
    underWay,
    send: followRedirects(
      (request) => sendOnce({ routes: () => routes, places, reads, underWay }, request),
      Date.now,
    ),
    reconfigure(next) {
      const old = routes
      routes = routesFor(next)
      retired.add(old)
      void old.drain().finally(() => retired.delete(old))
    },
    async close() {
      await Promise.all([routes, ...retired].map((each) => each.destroy()))
    },
  }
}
