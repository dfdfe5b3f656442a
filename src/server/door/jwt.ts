/**
 * Tokens of a trusted issuer (docs/decisions.md#callers, docs/configuration.md `callers.jwt`): signature by its
 * published key set, issuer, audience and times. Algorithms are pinned to public-key ones, so that a public key can
 * never be used as a shared secret.
 */
import { hash } from 'node:crypto'
import { createRecent } from '../../memory/recent.js'
import type { Send } from '../../net/send.js'

const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const CLOCK_SKEW_SECONDS = 30
const JWKS_TIMEOUT_MS = 5_000
const JWKS_BYTES = 256 * 1024
const JWKS_MAX_AGE_MS = 10 * 60_000
const UNKNOWN_KEY_COOLDOWN_MS = 30_000 // a rotated key is found with its first token; unknown ids are looked up at most twice a minute
const REMEMBERED_TOKENS = 10_000
const REMEMBER_MS = 60_000 // bounds how long a token outlives the removal of its key

export type JwtOptions = {
  issuer: string
  audience: string
  jwksUrl: string
  /** Outbound requests go through the egress guard, these too. */
  send: Send
  now: () => number
}

type Verified = { kind: 'valid'; subject: string } | { kind: 'invalid' } | { kind: 'unavailable' }
export type JwtVerifier = { verify(token: string): Promise<Verified> }

type Jose = typeof import('jose')

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
