/**
 * From credentials to a caller (specification, "Authentication"; docs/decisions.md#callers): by a key, or by a token of a
 * trusted issuer. Keys are held as SHA-256 digests, so the configuration holds nothing that a thief could call with; digests
 * are compared in constant time. Of a token its signature by the issuer's published key set is checked, issuer, audience and
 * times. Wrong credentials are counted by the address that they come from: whoever sends many is refused before its next one
 * is looked at; callers that were seen at that address before go on, for addresses are shared.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../../adcp/caller.js'
import type { CallerKey } from '../../config/callers.js'
import type { Send } from '../../net/send.js'
import { createRecent } from '../../process/memory.js'
import { createBuckets } from '../../process/token-buckets.js'

/** Of tokens: public-key ones alone, so that a public key can never be used as a shared secret. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const CLOCK_SKEW_SECONDS = 30
const JWKS_TIMEOUT_MS = 5_000
const JWKS_BYTES = 256 * 1024
const JWKS_MAX_AGE_MS = 10 * 60_000
const UNKNOWN_KEY_COOLDOWN_MS = 30_000 // a rotated key is found with its first token; unknown ids are looked up at most twice a minute
const REMEMBERED_TOKENS = 10_000
const REMEMBER_MS = 60_000 // bounds how long a token outlives the removal of its key

const RATE = { perSecond: 1, burst: 20 } // more than a person or a misconfigured client needs, nothing for who guesses
const MOST_ADDRESSES = 10_000
const MOST_SEEN = 10_000

const MAX_TOKEN = 8_192 // a longer header is not one of our credentials
const JWT = '(jwt)' // stands for all callers with tokens: whose a token is, is known only when it was verified

const ANONYMOUS: Caller = {
  id: 'anonymous',
  role: 'anonymous',
  visibility: 'metadata',
  destinations: [],
  accounts: new Map(),
}

/** Wrong credentials by the address that they come from, and who was seen there with right ones. `now`: ms. */
export function createGuesses(now: () => number) {
  const buckets = createBuckets(MOST_ADDRESSES)
  const seen = createRecent<true>(MOST_SEEN)
  let spentUntil = 0

  return {
    /** Seconds until a credential from there is looked at again; 0 when it is now. */
    wait: (address: string): number => buckets.wait(address, RATE, now()),
    /** A wrong one came. */
    note(address: string): void {
      const left = buckets.add(address, -1, RATE, now())
      if (left < 1) spentUntil = Math.max(spentUntil, now() + ((1 - left) * 1_000) / RATE.perSecond)
    },
    /** Whether any address has to wait: while none has, nobody needs to be looked at. */
    isAnySpent: () => spentUntil > 0 && now() < spentUntil,
    /** This caller, by a right credential, is at this address. */
    see: (who: string, address: string) => void seen.set(`${address} ${who}`, true),
    hasSeen: (who: string, address: string) => seen.has(`${address} ${who}`),
  }
}

export type Guesses = ReturnType<typeof createGuesses>

export type JwtOptions = {
  issuer: string
  audience: string
  jwksUrl: string
  /** Outbound requests go through the egress guard, these too. */
  send: Send
  now: () => number
}

type Verified = { kind: 'valid'; subject: string } | { kind: 'invalid' } | { kind: 'unavailable' }
type JwtVerifier = { verify(token: string): Promise<Verified> }

type Jose = typeof import('jose')

type ConfiguredCaller = Pick<CallerKey, 'id' | 'role'> & Partial<CallerKey>

export type CallersOptions = {
  anonymous: 'deny' | 'metadata'
  keys: readonly ConfiguredCaller[]
  jwt?: JwtVerifier
  guesses: Guesses
}

type Credentials = {
  authorization: string | undefined
  adcpAuth?: string | undefined
  address: string
}

/**
 * What an unsigned request must not do where signatures are verified: send secrets for webhooks and, for callers that
 * must sign, change anything.
 */
type Unsigned = 'missing' | 'required'

export type Identified =
  /** `bucket` names whose rate limit counts: the caller's, or the address of an anonymous one. */
  | { kind: 'caller'; caller: Caller; bucket: string; signature?: Unsigned }
  /** Genuine credentials of a principal that has no access here: AGENT_ACCESS_DENIED. */
  | { kind: 'denied'; bucket: string }
  | { kind: 'unauthenticated'; reason: 'missing' | 'invalid' }
  /** Too many wrong credentials came from there: this one was not looked at. */
  | { kind: 'guessing'; seconds: number }
  /** The key set of the token's issuer cannot be read now. */
  | { kind: 'unavailable' }

export type Callers = {
  identify(credentials: Credentials): Identified | Promise<Identified>
  byId(id: string): Caller | undefined
  /** The SHA-256 of a caller's key, in hex; undefined for one that has none. */
  keyDigest(id: string): string | undefined
}

const INVALID: Identified = { kind: 'unauthenticated', reason: 'invalid' }

type KnownCaller = Extract<Identified, { kind: 'caller' }>

/** `send` in the shape that jose fetches with. */
function fetchWith(send: Send, { errors }: Jose) {
  return async (url: string): Promise<Response> => {
    const reply = await send({
      url,
      headers: { accept: 'application/json' },
      timeoutMs: JWKS_TIMEOUT_MS,
      maxBytes: JWKS_BYTES,
    })
    if (reply.kind === 'failed') throw new errors.JWKSTimeout(reply.reason)
    return new Response(Buffer.from(reply.body), { status: reply.status })
  }
}

/** Failures of the key set's host, as against failures of the token. */
function isUnavailable(error: unknown, { errors }: Jose): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true
  // jose's word for a key set that answered with another status or with no JSON
  return error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC'
}

/** A verifier that remembers for a minute what it verified. Its package is loaded with the first token. */
export function createJwtVerifier({ issuer, audience, jwksUrl, send, now }: JwtOptions): JwtVerifier {
  const url = new URL(jwksUrl)
  let loading: ReturnType<typeof load> | undefined
  const remembered = createRecent<{ subject: string; until: number }>(REMEMBERED_TOKENS)

  async function load() {
    const jose = await import('jose')
    const keys = jose.createRemoteJWKSet(url, {
      [jose.customFetch]: fetchWith(send, jose),
      cooldownDuration: UNKNOWN_KEY_COOLDOWN_MS,
      cacheMaxAge: JWKS_MAX_AGE_MS,
    })
    return { jose, keys }
  }

  async function verify(token: string): Promise<Verified> {
    const name = hash('sha256', token, 'base64url')
    const known = remembered.get(name)
    if (known && now() < known.until) return { kind: 'valid', subject: known.subject }
    loading ??= load()
    const { jose, keys } = await loading
    try {
      const { payload } = await jose.jwtVerify(token, keys, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_SKEW_SECONDS,
        currentDate: new Date(now()),
        requiredClaims: ['exp', 'sub'],
      })
      const { sub, exp } = payload
      if (sub === undefined || exp === undefined) return { kind: 'invalid' }
      remembered.set(name, { subject: sub, until: Math.min(exp * 1_000, now() + REMEMBER_MS) })
      return { kind: 'valid', subject: sub }
    } catch (error) {
      // All faults of a token give the same answer, because a difference would help only forgers.
      return isUnavailable(error, jose) ? { kind: 'unavailable' } : { kind: 'invalid' }
    }
  }

  return { verify }
}

function callerOf({ id, role, destinations = [], accounts = {} }: ConfiguredCaller): Caller {
  return {
    id,
    role,
    visibility: 'full',
    destinations,
    accounts: new Map(Object.entries(accounts).map(([name, map]) => [name, new Map(Object.entries(map))])),
  }
}

/** Whether a header is of the scheme that we give keys and tokens for; a proxy's own password, say, comes by another. */
const isBearer = (authorization: string) => /^Bearer(?: |$)/i.test(authorization)

/**
 * The bearer token; null for a malformed credential. `x-adcp-auth` is read where docs/protocol.md#mcp
 * names it.
 */
function tokenOf({ authorization, adcpAuth }: Credentials): string | null | undefined {
  if (authorization !== undefined) {
    const match = /^Bearer +([^\s]+) *$/i.exec(authorization)
    return match?.[1] ?? null
  }
  return adcpAuth
}

function isJwt(token: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)
}

/** Throws when two callers share an id or a key: the second would silently be the first. */
export function createCallers({ anonymous, keys, jwt, guesses }: CallersOptions): Callers {
  const byDigest = new Map<string, { digest: Buffer; caller: Caller }>()
  const byId = new Map<string, Caller>()
  for (const key of keys) {
    const caller = callerOf(key)
    if (byId.has(key.id) || key.id === ANONYMOUS.id) throw new Error(`Two callers have the id ${key.id}`)
    byId.set(key.id, caller)
    if (key.tokenSha256 === undefined) continue
    const digest = key.tokenSha256
    if (!/^[0-9a-f]{64}$/.test(digest)) {
      throw new Error(`token_sha256 of caller ${key.id} is not 64 hex digits in lower case`)
    }
    if (byDigest.has(digest)) throw new Error(`Caller ${key.id} has the key of another caller`)
    byDigest.set(digest, { digest: Buffer.from(digest, 'hex'), caller })
  }

  /**
   * The caller of a key, cached by its header: every request has one, and hashing a key costs a tenth of an answer.
   * Only the usual spelling is cached, so that there is one entry per key. `address`: where it was last noted as seen.
   */
  const byHeader = new Map<string, { who: KnownCaller; address: string }>()

  function byKey(token: string): Caller | undefined {
    const digest = hash('sha256', token, 'hex')
    const found = byDigest.get(digest)
    return found && timingSafeEqual(found.digest, Buffer.from(digest, 'hex')) ? found.caller : undefined
  }

  async function byJwt(verifier: JwtVerifier, token: string, address: string): Promise<Identified> {
    const verified = await verifier.verify(token)
    if (verified.kind === 'unavailable') return verified
    if (verified.kind === 'invalid') return wrong(address)
    guesses.see(JWT, address)
    const caller = byId.get(verified.subject)
    return caller
      ? { kind: 'caller', caller, bucket: caller.id }
      : { kind: 'denied', bucket: `jwt ${verified.subject}` }
  }

  function wrong(address: string): Identified {
    guesses.note(address)
    return INVALID
  }

  function identify(credentials: Credentials): Identified | Promise<Identified> {
    const { authorization, address } = credentials
    const known = authorization === undefined ? undefined : byHeader.get(authorization)
    if (known && !guesses.isAnySpent()) {
      if (known.address !== address) {
        known.address = address
        guesses.see(known.who.caller.id, address)
      }
      return known.who
    }
    // Refused all the same; but what cannot be a key or a token of ours is no guess at one.
    if (authorization !== undefined && !isBearer(authorization)) return INVALID
    const token = tokenOf(credentials)
    if (token === undefined) {
      if (anonymous === 'deny') return { kind: 'unauthenticated', reason: 'missing' }
      return { kind: 'caller', caller: ANONYMOUS, bucket: `address ${address}` }
    }
    const isReadable = token !== null && token.length <= MAX_TOKEN
    const caller = isReadable ? byKey(token) : undefined
    const verifier = isReadable && isJwt(token) ? jwt : undefined
    const seconds = guesses.wait(address)
    if (seconds > 0 && !guesses.hasSeen(caller?.id ?? (verifier ? JWT : ''), address)) {
      return { kind: 'guessing', seconds }
    }
    if (caller) {
      const who: KnownCaller = known?.who ?? { kind: 'caller', caller, bucket: caller.id }
      if (authorization === `Bearer ${token}`) byHeader.set(authorization, { who, address })
      guesses.see(caller.id, address)
      return who
    }
    return verifier && token !== null ? byJwt(verifier, token, address) : wrong(address)
  }

  const digests = new Map(keys.map(({ id, tokenSha256 }) => [id, tokenSha256]))
  return { identify, byId: (id) => byId.get(id), keyDigest: (id) => digests.get(id) }
}
