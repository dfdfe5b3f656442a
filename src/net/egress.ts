/**
 * The one way out of the process: registries, upstreams, provider files, key sets and webhooks all use this `send`. It
 * limits where a request goes (net/addresses.ts), how long it takes and how many bytes it returns (docs/protocol.md#egress).
 */
import { createRequire } from 'node:module'
import type { LookupFunction, Socket } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { buildConnector } from 'undici'
import {
  type AddressPolicy,
  type AddressRules,
  createAddressPolicy,
  EgressRefused,
  guardedLookup,
  literalRefusal,
  type Resolve,
  systemResolve,
} from './addresses.js'
import {
  createBodyReceiver,
  createReads,
  createUnderWay,
  type Reads,
  UNDER_WAY_BYTES,
  type UnderWay,
} from './body.js'
import { createDeadline, type End } from './clock.js'
import { type Connections, type Connector, createConnections } from './connections.js'
import { exchange, failureOf } from './exchange.js'
import { createPlaces } from './places.js'
import {
  failed,
  followRedirects,
  type Outbound,
  type Send,
  type SendFailed,
  type SendOutcome,
} from './send.js'

const require = createRequire(import.meta.url)

// The part of undici that connects.
const connectorOf = require('undici/lib/core/connect.js') as typeof buildConnector

const CONNECT_TIMEOUT_MS = 10_000 // a host that does not answer a SYN this long is down

const CONNECTIONS_PER_ORIGIN = 32 // one origin never holds more sockets than this, if nothing else is said
const USER_AGENT = 'tributary' // many sites refuse requests without a user agent

let context: SecureContext | undefined

/** Whom connections trust, made once: Node would make it for each of them, which takes a millisecond. */
function trusted(): SecureContext {
  context ??= createSecureContext()
  return context
}

/**
 * Makes sockets for connections. `signal` closes them, also those that are still connecting, and none is made after it. It is
 * not given to the sockets: Node adds a listener for each and never removes it, so that all there ever were would be kept.
 * Certificates are always verified, whatever the environment says, because authorization rests on what providers
 * publish over https. undici passes all other options to Node.
 */
export function createConnector(options: {
  lookup?: LookupFunction
  signal: AbortSignal
  /** How they are read. */
  onread: Reads
}): Connector {
  const { signal, ...ways } = options
  const socket = { timeout: CONNECT_TIMEOUT_MS, rejectUnauthorized: true, ...ways }
  const connectorWith = (more: object) => connectorOf({ ...socket, ...more } as buildConnector.BuildOptions)
  const plain = connectorWith({})
  let secure: buildConnector.connector | undefined
  const sockets = new Set<Socket>()
  const closed = () => new Error('everything was closed')
  signal.addEventListener('abort', () => {
    for (const one of sockets) one.destroy(closed())
  })
  return (target, callback) => {
    if (signal.aborted) {
      callback(closed(), null)
      return undefined
    }
    let connect = plain
    if (target.protocol === 'https:') {
      secure ??= connectorWith({ secureContext: trusted() })
      connect = secure
    }
    const made = connect(target, callback) as unknown as Socket // undici gives it back, which its types do not say
    sockets.add(made)
    made.once('close', () => sockets.delete(made))
    return made
  }
}

/** A connector that reaches what the policy permits. Literal addresses are checked first: sockets never look them up. */
function createGuardedConnector(
  policy: AddressPolicy,
  resolve: Resolve,
  given: { signal: AbortSignal; onread: Reads },
): Connector {
  const connectorFor = (scheme: 'http:' | 'https:') =>
    createConnector({ lookup: guardedLookup(policy, resolve, scheme), ...given })
  const connectors = { 'http:': connectorFor('http:'), 'https:': connectorFor('https:') }
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    const refused = literalRefusal(policy, options.hostname, scheme)
    if (!refused) return connectors[scheme](options, callback)
    callback(refused, null)
    return undefined
  }
}

export type EgressPolicy = AddressRules & {
  /**
   * Sends requests for a domain to another origin, with the same Host header. The operator sets this, so the address is
   * not checked.
   */
  hosts: Readonly<Record<string, string>>
}

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

type Route = { connections: Connections; origin: string }
type Routes = {
  of(url: URL): Route
  /** Waits for requests under way, then closes. */
  drain(): Promise<void>
  /** Aborts requests under way, then closes. */
  destroy(): Promise<void>
}

function originOf(domain: string, target: string): string {
  const url = URL.canParse(target) ? new URL(target) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new Error(`egress host ${domain}: expected an origin such as http://127.0.0.1:4900, got ${target}`)
  }
  return url.origin
}

function createRoutes(policy: EgressPolicy, resolve: Resolve, onread: Reads): Routes {
  const lifetime = new AbortController()
  const { signal } = lifetime
  const guarded = createConnections(
    createGuardedConnector(createAddressPolicy(policy), resolve, { signal, onread }),
  )
  const mapped = createConnections(createConnector({ signal, onread }))
  const origins = new Map(
    Object.entries(policy.hosts).map(([domain, target]) => [domain, originOf(domain, target)]),
  )
  return {
    of(url) {
      const origin = origins.get(url.hostname)
      return origin ? { connections: mapped, origin } : { connections: guarded, origin: url.origin }
    },
    drain: async () => {
      await Promise.all([guarded.drain(), mapped.drain()])
    },
    destroy: async () => {
      const ended = Promise.all([guarded.destroy(), mapped.destroy()])
      lifetime.abort() // closing connections does not end those that are still being made
      await ended
    },
  }
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
    const over = await places.take(routes().of(url).origin, deadline, request.caller)
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
