/**
 * Who is admitted, and how often: callers and rate limits (docs/configuration.md, `rate_limit`), replaced together when the
 * configuration changes. A request that was admitted continues as the caller that it was.
 */
import type { AdcpError } from '../../adcp/answer.js'
import type { Send } from '../../net/send.js'
import { createBuckets, type Rate } from '../../process/buckets.js'
import { createRecent } from '../../process/memory.js'
import { createKeySets } from '../../signing/key.js'
import { REQUESTS } from '../../signing/signature.js'
import {
  createReplayGuard,
  createVerifier,
  type ReplayGuard,
  type SharedNonces,
  type Verifier,
} from '../../signing/verify.js'
import type { Exchange } from '../answer/exchange.js'
import {
  type Callers,
  type CallersOptions,
  createCallers,
  createGuesses,
  createJwtVerifier,
  type Guesses,
  type Identified,
  type JwtOptions,
} from './credentials.js'

const MAX_CALLERS = 100_000
const LONGEST_S = 3_600
const MOST_COUNTED = 1_000 // callers whose refusals for their rate are counted
const MOST_TOLD = 50

type RateLimit = Rate & {
  /** Among how many processes that serve one address it is divided. Default: this one has all of it. */
  among?(): number
}
export type RateLimiter = {
  /** 0 when the call may go on; else the seconds until it may, at least 1. */
  take(caller: string, now: number): number
}

export type AdmissionOptions = {
  callers: Omit<CallersOptions, 'jwt' | 'guesses'>
  jwt?: JwtOptions
  rateLimit?: RateLimit
  /** Nonces that other processes behind the same address have seen. */
  sharedNonces?: SharedNonces
  /** How key sets are read, of callers that sign. */
  send: Send
  now: () => number
}

/** Present when any caller signs its requests. */
export type Signatures = {
  verify: Verifier
  /** Whether this caller must sign what changes something; for nobody in particular, whether everybody must. */
  mustSign(caller?: string): boolean
}

export type Admission = Callers &
  RateLimiter & {
    signatures(): Signatures | undefined
    /** Who asked more than the limit allows, with how often since the start; the most often first. */
    limited(): readonly (readonly [caller: string, times: number])[]
    reconfigure(options: AdmissionOptions): void
  }

export type Entered = Extract<Identified, { kind: 'caller' | 'denied' }>

export type TurnedAway = {
  kind: 'turned_away'
  status: number
  code: number
  message: string
  /** Why, in a closed word for the log and the metrics. */
  reason?: string
  error?: AdcpError
  headers?: Record<string, string>
}

/** What the door looks at. */
export type Visit = Pick<Exchange, 'raw' | 'body'>

/** `code`: of the JSON-RPC error; 0 where none is sent. */
export function turnedAway(status: number, code: number, message: string, reason?: string): TurnedAway {
  return { kind: 'turned_away', status, code, message, reason }
}

/** How much one caller may ask: a token bucket each, refilled over time. `limit` undefined: nobody is held back. */
export function createRateLimiter(limit: RateLimit | undefined): RateLimiter {
  if (!limit) return { take: () => 0 }
  const { perSecond: all, burst: most, among = () => 1 } = limit
  if (!(all > 0) || !(most >= 1)) {
    throw new RangeError(`A rate limit needs per_second > 0 and burst >= 1, got ${all} and ${most}`)
  }
  const buckets = createBuckets(MAX_CALLERS)
  return {
    take(caller, now) {
      const parts = among()
      const rate = { perSecond: all / parts, burst: Math.max(1, most / parts) }
      return Math.min(LONGEST_S, buckets.take(caller, rate, now))
    },
  }
}

function signaturesOf({ callers, send, now }: AdmissionOptions, replay: ReplayGuard): Signatures | undefined {
  const signers = callers.keys.flatMap(({ id, signing }) => (signing ? [{ id, ...signing }] : []))
  if (signers.length === 0) return undefined
  const required = new Set(signers.flatMap(({ id, required: must }) => (must ? [id] : [])))
  const everybody = callers.anonymous === 'deny' && required.size === callers.keys.length
  const revoked = new Set(signers.flatMap((one) => (one.revoked ?? []).map((keyid) => `${one.id} ${keyid}`)))
  const sources = signers.map(({ id, source }) => ({ owner: id, ...source }))
  return {
    verify: createVerifier({
      ...{ profile: REQUESTS, keyOf: createKeySets({ sources, send, now }), replay, now },
      revocation: { isStale: () => false, isRevoked: (keyid, owner) => revoked.has(`${owner} ${keyid}`) },
    }),
    mustSign: (caller) => (caller === undefined ? everybody : required.has(caller)),
  }
}

function made(options: AdmissionOptions, replay: ReplayGuard, guesses: Guesses) {
  const { callers, jwt, rateLimit } = options
  return {
    signatures: signaturesOf(options, replay),
    callers: createCallers({ ...callers, guesses, ...(jwt && { jwt: createJwtVerifier(jwt) }) }),
    limiter: createRateLimiter(rateLimit),
  }
}

/** Throws, here and in `reconfigure`, when callers or limits contradict themselves; then nothing changes. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { now, sharedNonces: shared } = options
  const replay = createReplayGuard({ now, ...(shared && { shared }) }) // a used nonce stays used when the configuration changes
  const limited = createRecent<number>(MOST_COUNTED)
  const guesses = createGuesses(now) // neither does who guesses begin anew
  let current = made(options, replay, guesses)
  return {
    identify: (credentials) => current.callers.identify(credentials),
    byId: (id) => current.callers.byId(id),
    keyDigest: (id) => current.callers.keyDigest(id),
    signatures: () => current.signatures,
    take(caller, now) {
      const wait = current.limiter.take(caller, now)
      if (wait > 0) limited.set(caller, (limited.get(caller) ?? 0) + 1)
      return wait
    },
    limited: () => [...limited.entries()].sort(([, one], [, other]) => other - one).slice(0, MOST_TOLD),
    reconfigure(next) {
      current = made(next, replay, guesses)
    },
  }
}
