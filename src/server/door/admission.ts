/**
 * Who is admitted, and how often: callers, their signatures and rate limits (docs/configuration.md, `rate_limit`), replaced
 * together when the configuration changes. A request that was admitted continues as the caller that it was.
 *
 * A signature of a caller's request that is sent must be valid, whatever other credential comes with it. A request that needs
 * one is refused without it before anything is done (docs/protocol.md#signatures).
 */
import { bufferOf } from '../../adcp/json.js'
import type { Send } from '../../net/send.js'
import { createRecent } from '../../process/memory.js'
import { createBuckets, type Rate } from '../../process/token-buckets.js'
import { createKeySets } from '../../signing/key.js'
import { REQUESTS } from '../../signing/signature.js'
import {
  createReplayGuard,
  createVerifier,
  type ReplayGuard,
  type SharedNonces,
  type Verifier,
} from '../../signing/verify.js'
import { bodyBytes, type Exchange } from '../answer/exchange.js'
import { valueOfBody } from '../answer/json-rpc.js'
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
import { badSignature, SIGNATURE_REQUIRED, type TurnedAway } from './turned-away.js'

const MAX_CALLERS = 100_000
const LONGEST_S = 3_600
const MOST_COUNTED = 1_000 // callers whose refusals for their rate are counted
const MOST_TOLD = 50

/** The method whose params name a task of ours. */
const CALLS_TOOL = 'tools/call'
/** The members of a request in which webhooks are asked for. */
const PUSH_SETTINGS = ['push_notification_config', 'notification_configs'] as const

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
type Signatures = {
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

/** What the door looks at. */
export type Visit = Pick<Exchange, 'raw' | 'body'>

type SignatureGateOptions = {
  byId: Admission['byId']
  /** Who asks, by any other credential. */
  identified(visit: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway>
  /** The url that callers know us by, which they sign; without a slash at its end. */
  publicUrl: string
  isMutating(task: string): boolean
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Every object and list inside a value, itself included. */
function* within(value: unknown): Generator<Record<string, unknown>> {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (!isObject(next)) continue
    yield next
    for (const held of Object.values(next)) open.push(held) // spreading a long list would overflow the stack
  }
}

/** The tasks that a body of either transport calls, by the names in it. */
function calledTasks(body: Uint8Array): ReadonlySet<string> {
  const found = new Set<string>()
  for (const { method, params, skill } of within(valueOfBody(body))) {
    if (method === CALLS_TOOL && isObject(params) && typeof params.name === 'string') found.add(params.name)
    if (typeof skill === 'string') found.add(skill)
  }
  return found
}

/**
 * Whether a value contains a shared secret for webhooks: somebody who can change the request could insert another one.
 */
export function registersSecret(value: unknown): boolean {
  for (const object of within(value)) {
    for (const name of PUSH_SETTINGS) {
      const settings = object[name]
      const entries = Array.isArray(settings) ? settings : [settings]
      if (
        entries.some(
          (entry) => isObject(entry) && entry.authentication !== undefined && entry.authentication !== null,
        )
      ) {
        return true
      }
    }
  }
  return false
}

/** The same of a request body. */
function bodyRegistersSecret(body: Uint8Array): boolean {
  const bytes = bufferOf(body)
  // A name may be written with escapes; without any, searching the bytes is faster than parsing.
  return (bytes.includes('authentication') || bytes.includes('\\u')) && registersSecret(valueOfBody(body))
}

/**
 * How much one caller may ask: a token bucket each, refilled over time. `limit` undefined: nobody is held back. `buckets`: what was
 * taken under another limit.
 */
export function createRateLimiter(
  limit: RateLimit | undefined,
  buckets = createBuckets(MAX_CALLERS),
): RateLimiter {
  if (!limit) return { take: () => 0 }
  const { perSecond: all, burst: most, among = () => 1 } = limit
  if (!(all > 0) || !(most >= 1)) {
    throw new RangeError(`A rate limit needs per_second > 0 and burst >= 1, got ${all} and ${most}`)
  }
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

/** What a change of the configuration leaves as it is: used nonces, who guesses, and what callers have asked. */
type Outliving = { replay: ReplayGuard; guesses: Guesses; buckets: ReturnType<typeof createBuckets> }

function made(options: AdmissionOptions, { replay, guesses, buckets }: Outliving) {
  const { callers, jwt, rateLimit } = options
  return {
    signatures: signaturesOf(options, replay),
    callers: createCallers({ ...callers, guesses, ...(jwt && { jwt: createJwtVerifier(jwt) }) }),
    limiter: createRateLimiter(rateLimit, buckets),
  }
}

/** Lets a request in by its signature, or by another credential where it needs none. */
export function createSignatureGate({ byId, identified, publicUrl, isMutating }: SignatureGateOptions) {
  async function signed(
    visit: Visit,
    { verify }: Signatures,
    known: Entered | TurnedAway | undefined,
  ): Promise<Entered | TurnedAway> {
    if (known && known.kind !== 'caller') return known
    const message = {
      method: visit.raw.method ?? '',
      url: publicUrl + visit.raw.url,
      headers: visit.raw.headersDistinct,
      body: bodyBytes(visit),
    }
    // A bearer token in the same request says whose signature it must be.
    const verified = await verify(message, known?.caller.id)
    if (verified.kind === 'rejected') return badSignature(verified.code)
    const caller = verified.kind === 'verified' ? byId(verified.owner) : undefined
    return caller ? { kind: 'caller', caller, bucket: caller.id } : SIGNATURE_REQUIRED
  }

  function unsigned(visit: Visit, { mustSign }: Signatures, who: Entered | TurnedAway): Entered | TurnedAway {
    const body = bodyBytes(visit)
    const must = mustSign(who.kind === 'caller' ? who.caller.id : undefined)
    if (must && [...calledTasks(body)].some(isMutating)) return SIGNATURE_REQUIRED
    if (who.kind !== 'caller') return who
    if (bodyRegistersSecret(body)) return SIGNATURE_REQUIRED
    return { ...who, signature: must ? 'required' : 'missing' }
  }

  return (visit: Visit, signatures: Signatures): Entered | TurnedAway | Promise<Entered | TurnedAway> => {
    const { headers } = visit.raw
    const isSigned = headers.signature !== undefined || headers['signature-input'] !== undefined
    if (isSigned) {
      const hasBearer = headers.authorization !== undefined || headers['x-adcp-auth'] !== undefined
      const known = hasBearer ? identified(visit) : undefined
      return Promise.resolve(known).then((settled) => signed(visit, signatures, settled))
    }
    const who = identified(visit)
    return who instanceof Promise
      ? who.then((settled) => unsigned(visit, signatures, settled))
      : unsigned(visit, signatures, who)
  }
}

/** Throws, here and in `reconfigure`, when callers or limits contradict themselves; then nothing changes. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { now, sharedNonces: shared } = options
  const outliving: Outliving = {
    replay: createReplayGuard({ now, ...(shared && { shared }) }),
    guesses: createGuesses(now),
    buckets: createBuckets(MAX_CALLERS),
  }
  const limited = createRecent<number>(MOST_COUNTED)
  let current = made(options, outliving)
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
      current = made(next, outliving)
    },
  }
}
