/**
 * The one way out of the process: registries, upstreams, provider files, key sets and webhooks all use this `send`. It
 * limits where a request goes, how long it takes and how many bytes it returns (docs/protocol.md#egress). Sockets are opened
 * only to addresses that the policy permits, and to exactly the addresses that were checked: a name is resolved once, here, so
 * a second, different DNS answer cannot bypass the check.
 */
import { promises as dns, type LookupAddress } from 'node:dns'
import { createRequire } from 'node:module'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import ipaddr from 'ipaddr.js'
import type { buildConnector, Dispatcher } from 'undici'
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
import {
  failed,
  followRedirects,
  type Outbound,
  type Send,
  type SendFailed,
  type SendOutcome,
} from './send.js'

const require = createRequire(import.meta.url)

// The parts of undici that connect: the package as a whole loads fetch, sockets for browsers and doubles for tests as well.
const Agent = require('undici/lib/dispatcher/agent.js') as typeof import('undici').Agent
const connectorOf = require('undici/lib/core/connect.js') as typeof buildConnector

const CONNECT_TIMEOUT_MS = 10_000 // a host that does not answer a SYN this long is down

const CONNECTIONS_PER_ORIGIN = 32 // one origin never holds more sockets than this, if nothing else is said
const KEEP_ALIVE_MS = 30_000 // also where its server asks for longer: sockets are ours to count
const USER_AGENT = 'tributary' // many sites refuse requests without a user agent

const GLOBAL_UNICAST_V6 = ipaddr.parseCIDR('2000::/3') // all public IPv6 addresses are in it
// A public address in private use: Azure answers metadata questions of its virtual machines on it.
const METADATA = new Set(['168.63.129.16'])

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = [Address, number]

type AddressPolicy = {
  /** May a connection to this address be made, given the scheme? IPv4-mapped forms count as the IPv4 they carry. */
  permits(address: string, scheme: 'http:' | 'https:'): boolean
}

type AddressRules = {
  /** Plain http to public addresses too. */
  allowHttp: boolean
  /** Networks in CIDR notation that may be reached, by http as well. */
  allowNetworks: readonly string[]
}

function parseNetwork(text: string): Network {
  try {
    return ipaddr.parseCIDR(text)
  } catch {
    throw new Error(`egress network: expected CIDR notation such as 10.0.0.0/8, got ${JSON.stringify(text)}`)
  }
}

function isPublic(address: Address): boolean {
  if (METADATA.has(address.toString()) || address.range() !== 'unicast') return false
  return address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST_V6)
}

function inside(address: Address, networks: readonly Network[]): boolean {
  return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
}

/**
 * Which addresses an outbound request may reach: public ones, and the networks the operator opened
 * (docs/protocol.md#egress; docs/configuration.md, `egress`). Throws when a network is not CIDR notation.
 */
export function createAddressPolicy({ allowHttp, allowNetworks }: AddressRules): AddressPolicy {
  const networks = allowNetworks.map(parseNetwork)
  return {
    permits(text, scheme) {
      if (!ipaddr.isValid(text)) return false
      const address = ipaddr.process(text)
      if (inside(address, networks)) return true
      return isPublic(address) && (scheme === 'https:' || allowHttp)
    },
  }
}

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** All addresses of a host name, as the system resolves it. Rejects when it cannot. */
export const systemResolve: Resolve = (hostname) => dns.lookup(hostname, { all: true })

/** The policy does not permit an address; the message names the setting that would. */
class EgressRefused extends Error {}

function literal(hostname: string): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return isIP(bare) ? bare : undefined
}

/** Why the address is refused, and the setting that allows it. Https to a public address needs no setting. */
function refusal(what: string, scheme: 'http:' | 'https:', isPublic: boolean): EgressRefused {
  return isPublic
    ? new EgressRefused(`${what} may be reached over https only (egress.allow_http, egress.hosts)`)
    : new EgressRefused(
        `${what} is not public and may not be reached over ${scheme.slice(0, -1)} (egress.allow_networks, egress.hosts)`,
      )
}

function guardedLookup(policy: AddressPolicy, resolve: Resolve, scheme: 'http:' | 'https:'): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (found) => {
        const allowed = found.filter(({ address }) => policy.permits(address, scheme))
        const [first] = allowed
        if (!first) {
          const isPublic = found.some(({ address }) => policy.permits(address, 'https:'))
          callback(refusal(hostname, scheme, isPublic), '')
        } else if (options.all) callback(null, allowed)
        else callback(null, first.address, first.family)
      },
      (error) => callback(error, ''),
    )
  }
}

let context: SecureContext | undefined

/** Whom connections trust, made once: Node would make it for each of them, which takes a millisecond. */
function trusted(): SecureContext {
  context ??= createSecureContext()
  return context
}

/**
 * Makes sockets for undici's Agent. `signal` closes them, also those that are still connecting, and none is made after it. It is
 * not given to the sockets: Node adds a listener for each and never removes it, so that all there ever were would be kept.
 * Certificates are always verified, whatever the environment says, because authorization rests on what providers
 * publish over https. undici passes all other options to Node.
 */
export function createConnector(options: {
  lookup?: LookupFunction
  signal: AbortSignal
  /** How they are read. */
  onread: Reads
}): buildConnector.connector {
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
    if (signal.aborted) return callback(closed(), null)
    let connect = plain
    if (target.protocol === 'https:') {
      secure ??= connectorWith({ secureContext: trusted() })
      connect = secure
    }
    const made = connect(target, callback) as unknown as Socket // undici gives it back, which its types do not say
    sockets.add(made)
    made.once('close', () => sockets.delete(made))
  }
}

/** A connector that reaches what the policy permits. Literal addresses are checked first: sockets never look them up. */
function createGuardedConnector(
  policy: AddressPolicy,
  resolve: Resolve,
  given: { signal: AbortSignal; onread: Reads },
): buildConnector.connector {
  const connectorFor = (scheme: 'http:' | 'https:') =>
    createConnector({ lookup: guardedLookup(policy, resolve, scheme), ...given })
  const connectors = { 'http:': connectorFor('http:'), 'https:': connectorFor('https:') }
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    const address = literal(options.hostname)
    if (address && !policy.permits(address, scheme)) {
      callback(refusal(address, scheme, policy.permits(address, 'https:')), null)
      return
    }
    connectors[scheme](options, callback)
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

type Route = { dispatcher: Dispatcher; origin: string; host: string }
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

function createRoutes(policy: EgressPolicy, resolve: Resolve, onread: Reads, connections: number): Routes {
  const kept = { keepAliveTimeout: KEEP_ALIVE_MS, keepAliveMaxTimeout: KEEP_ALIVE_MS }
  const pool = { connections, ...kept, headersTimeout: 0 }
  const lifetime = new AbortController()
  const { signal } = lifetime
  const guarded = new Agent({
    ...pool,
    connect: createGuardedConnector(createAddressPolicy(policy), resolve, { signal, onread }),
  })
  const mapped = new Agent({ ...pool, connect: createConnector({ signal, onread }) })
  const origins = new Map(
    Object.entries(policy.hosts).map(([domain, target]) => [domain, originOf(domain, target)]),
  )
  return {
    of(url) {
      const origin = origins.get(url.hostname)
      return origin
        ? { dispatcher: mapped, origin, host: url.host }
        : { dispatcher: guarded, origin: url.origin, host: url.host }
    },
    drain: async () => {
      await Promise.all([guarded.close(), mapped.close()])
    },
    destroy: async () => {
      const ended = Promise.all([guarded.destroy(), mapped.destroy()])
      lifetime.abort() // closing an agent does not end connections that are still being made
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
    const { dispatcher, origin, host } = routes().of(url) // of the policy that is in force by now
    const asked = exchange(
      dispatcher,
      {
        origin,
        path: `${url.pathname}${url.search}`,
        method: request.method ?? 'GET',
        headers: { 'user-agent': USER_AGENT, 'accept-encoding': 'gzip', ...request.headers, host },
        body: request.body ?? null,
        bodyTimeout: 0, // undici limits idle time; the budget limits total time
      },
      {
        ...{ deadline, reads, over, maxBytes: request.maxBytes },
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
    // undici notices an abort only after it is connected, so a handshake that hangs would exceed every budget.
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
  const routesFor = (next: EgressPolicy) => createRoutes(next, resolve, reads, connections)
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
