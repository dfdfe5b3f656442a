/** The checks before both transports: overload, the origin of a browser, and the caller; and the turns of rare messages. */
import type { IncomingMessage } from 'node:http'
import ipaddr from 'ipaddr.js'
import { createFairQueue } from '../../process/fair-queue.js'
import { nextPortion } from '../../process/portion-turns.js'
import { createTurnBudget } from '../../process/turn-budget.js'
import type { Exchange } from '../answer/exchange.js'
import { reasonOfCode } from '../answer/json-rpc.js'
import {
  type Admission,
  createSignatureGate,
  type Entered,
  type RateLimiter,
  type Visit,
} from './admission.js'
import type { Identified } from './credentials.js'
import type { Overload } from './overload.js'
import {
  busy,
  limited,
  NEEDS_KEY,
  NEEDS_OPERATOR,
  SERVER_ERROR,
  sendTurnedAway,
  type TurnedAway,
  turnedAway,
  unauthenticated,
} from './turned-away.js'

const MAX_HOSTS = 100
const TOO_MANY_GUESSES = 'Too many wrong credentials came from this address'

const MOST_RARE_MESSAGES = 200 // of one caller: a fifth of a second
const MOST_POSTPONED = 1_000 // of one caller: more than it has connections, and small answers are given in two turns
const SOON_S = 1

export type AddressOf = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string

type DoorOptions = {
  callers: Pick<Admission, 'identify' | 'byId' | 'signatures'>
  overload: Overload
  /** The url that callers know us by; its origin and host are always welcome. */
  publicUrl: string
  /** Whose rate limit counts for callers without a key. */
  addressOf: AddressOf
  /** Whether a task of this name changes something. */
  isMutating(task: string): boolean
  /** Told of each message to a transport that came to no task: its request did not get in, or nothing answers it. */
  onRefused?(exchange: Exchange, refused: { status: number; reason?: string }): void
}

type Serve = (who: Entered, exchange: Exchange) => void | Promise<void>

/** Each proxy appends whom it heard from, so the last entry is the nearest. Headers that came twice are one list. */
function forwardedFor({ headers }: Pick<IncomingMessage, 'headers'>): string[] {
  const told = headers['x-forwarded-for'] ?? []
  return [told].flat().join(',').split(',')
}

/**
 * Where a request came from, for the rate limit of callers without a key. Anybody can write X-Forwarded-For, so it counts only
 * as far as proxies of the operator's (docs/configuration.md, `listen.trusted_proxies`) have written it. Throws when a network
 * is not CIDR notation.
 */
export function createAddressOf(trustedProxies: readonly string[] = []): AddressOf {
  const networks = trustedProxies.map((network) => ipaddr.parseCIDR(network))

  function isTrusted(text: string): boolean {
    const address = ipaddr.process(text) // an IPv4 address in an IPv6 socket is that IPv4 address
    return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
  }

  return (request) => {
    let address = request.socket.remoteAddress ?? ''
    if (networks.length === 0) return address
    for (const entry of forwardedFor(request).reverse()) {
      const before = entry.trim()
      if (!ipaddr.isValid(address) || !isTrusted(address) || !ipaddr.isValid(before)) break
      address = before
    }
    return address
  }
}

/**
 * When a message is answered that calls no task. The official servers take up to a millisecond for each, and one caller may have
 * thousands of them on the way: each begins in a turn of the loop of its own, and callers take turns.
 */
export function createRareTurns(limiter: RateLimiter, now: () => number) {
  const queue = createFairQueue({ total: 1, perOwner: 1, perGroup: 1 })
  return {
    /** Whole seconds until this caller may ask; 0 when it may, and then that counts. */
    wait(caller: string): number {
      const seconds = limiter.take(caller, now())
      return seconds === 0 && queue.waiting(caller) >= MOST_RARE_MESSAGES ? SOON_S : seconds
    },
    /** Resolves when the next message of this caller may be answered. */
    next: (caller: string): Promise<void> => queue.run({ owners: [caller], group: '' }, nextPortion),
  }
}

export type RareTurns = ReturnType<typeof createRareTurns>

function isLocalName(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || /^[\d.]+$/.test(host) || host.startsWith('[')
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined
}

/** The operator who asks, or why the request gets no further. */
export async function enterOperator(
  door: Pick<Door, 'enter'>,
  visit: Visit,
): Promise<Extract<Entered, { kind: 'caller' }> | TurnedAway> {
  const who = await door.enter(visit)
  if (who.kind === 'turned_away') return who
  if (who.kind !== 'caller') return NEEDS_OPERATOR
  if (who.caller.role === 'anonymous') return NEEDS_KEY
  return who.caller.role === 'operator' ? who : NEEDS_OPERATOR
}

export function createDoor(options: DoorOptions) {
  const { callers, overload, publicUrl, addressOf, isMutating, onRefused = () => {} } = options
  const reasons = new WeakMap<IncomingMessage, string>()
  const turns = createTurnBudget()
  const own = new URL(publicUrl)
  const throughGate = createSignatureGate({ byId: callers.byId, identified, publicUrl, isMutating })
  const welcomeOrigins = new Set<string | undefined>([undefined, own.origin])
  const localHosts = new Set<string | undefined>([own.host])

  /**
   * A web page must not reach an agent on its visitor's machine by pointing a name of its own at it (MCP transport,
   * "Security Warning"): its Origin is foreign, and its Host is not a name of this machine.
   */
  function isForeign({ headers, socket }: Visit['raw']): boolean {
    const { origin, host } = headers
    if (!welcomeOrigins.has(origin)) {
      const from = origin === undefined ? undefined : hostOf(origin)
      if (from === undefined || !isLocalName(from)) return true
    }
    if (localHosts.has(host)) return false
    const name = hostOf(`http://${host}`)
    if (name === undefined || !(isLocalName(name) || name === own.hostname)) {
      return /^(::ffff:)?127\.|^::1$/.test(socket.localAddress ?? '')
    }
    if (localHosts.size < MAX_HOSTS) localHosts.add(host)
    return false
  }

  function settle(who: Identified): Entered | TurnedAway {
    if (who.kind === 'unauthenticated') return unauthenticated(who.reason)
    if (who.kind === 'guessing') return limited(who.seconds, TOO_MANY_GUESSES, 'too_many_guesses')
    if (who.kind === 'unavailable') return busy('Credentials cannot be checked now.', 'credentials_unchecked')
    return who
  }

  function identified({ raw }: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway> {
    const { authorization, 'x-adcp-auth': adcpAuth } = raw.headers
    const who = callers.identify({
      authorization,
      adcpAuth: typeof adcpAuth === 'string' ? adcpAuth : undefined,
      address: addressOf(raw), // no getter: an object literal with one keeps its request until the old space is collected
    })
    return who instanceof Promise ? who.then(settle) : settle(who)
  }

  function looked(visit: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway> {
    if (overload.isOverloaded()) return busy('Too much is going on.')
    if (isForeign(visit.raw))
      return turnedAway(403, SERVER_ERROR, 'This Origin or Host is not welcome', 'foreign_origin')
    const signatures = callers.signatures()
    return signatures ? throughGate(visit, signatures) : identified(visit)
  }

  function noted({ raw }: Visit, who: Entered | TurnedAway): Entered | TurnedAway {
    if (who.kind === 'turned_away' && who.reason !== undefined) reasons.set(raw, who.reason)
    return who
  }

  function enter(visit: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway> {
    const who = looked(visit)
    return who instanceof Promise ? who.then((settled) => noted(visit, settled)) : noted(visit, who)
  }

  function turnAway(exchange: Exchange, turned: TurnedAway): void {
    sendTurnedAway(exchange, turned)
    onRefused(exchange, turned)
  }

  /** Serves now, or in a later turn of the loop where this one has worked long enough; a caller who has gone is not served. */
  function serveInTurn(who: Entered, exchange: Exchange, serve: Serve): void | Promise<void> {
    if (!turns.isSpent()) return serve(who, exchange)
    if (turns.waiting(who.bucket) >= MOST_POSTPONED) return turnAway(exchange, limited(SOON_S))
    return turns.later(who.bucket, () => (exchange.response.destroyed ? undefined : serve(who, exchange)))
  }

  return {
    addressOf,
    enter,
    /** Lets a request to a transport in, or sends the HTTP answer of one that does not get in. */
    letIn(exchange: Exchange, serve: Serve): void | Promise<void> {
      const settled = (who: Entered | TurnedAway) =>
        who.kind === 'turned_away' ? turnAway(exchange, who) : serveInTurn(who, exchange, serve)
      const who = enter(exchange)
      return who instanceof Promise ? who.then(settled) : settled(who)
    },
    /** Why a request did not get in; undefined for one that did. */
    reasonOf: (raw: IncomingMessage) => reasons.get(raw),
    /** Sends the HTTP answer of a request that a transport itself does not take. */
    turnAway,
    /** Tells of a JSON-RPC error, which the transport sends itself: its HTTP status may well be 200. */
    refused(exchange: Exchange, status: number, code: unknown, reason = reasonOfCode(code)): void {
      onRefused(exchange, { status, reason })
    },
  }
}

export type Door = ReturnType<typeof createDoor>
