/**
 * Sessions of people at a browser. The cookie of a session holds the caller's id, the time at which the session ends, and
 * an HMAC over both and the digest of the caller's key. So the server stores no session, every replica reads it, it
 * survives a restart, and it ends when the configuration no longer has that key. The key itself is not in the cookie.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../adcp/caller.js'

const LASTS_MS = 12 * 3_600_000
const NAME = 'tributary_session'
const LONGEST = 1_024 // characters; every cookie of ours is shorter

type SessionOptions = {
  /** Shared by all replicas, and kept over restarts. */
  secret: Uint8Array
  callers: {
    byId(id: string): Caller | undefined
    /** The SHA-256 of the caller's key; undefined for one that has none. */
    keyDigest(id: string): string | undefined
  }
  /** Whether browsers reach us over TLS: then they send the cookie over TLS only. */
  isSecure: boolean
  now: () => number
}

export type Session = {
  caller: Caller
  /** What a request that changes something must repeat in a header: pages of other origins cannot read it. */
  csrf: string
}

/** The value of our cookie in a Cookie header (RFC 6265, section 5.4). */
function cookieIn(header: string | undefined): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (pair.slice(0, at).trim() === NAME) return pair.slice(at + 1).trim()
  }
  return undefined
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Opens, reads and ends sessions; each lasts twelve hours at most. */
export function createSessions({ secret, callers, isSecure, now }: SessionOptions) {
  const seal = (...parts: (string | number)[]) =>
    createHmac('sha256', secret)
      .update(JSON.stringify(['console', ...parts]))
      .digest('base64url')

  const attributes = (maxAge: number) =>
    `Path=/console; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${isSecure ? '; Secure' : ''}`

  return {
    /**
     * The Set-Cookie header of a new session; undefined when `token` is not the caller's key: a token of a JWT issuer ends
     * on its own, and a session would outlive it.
     */
    open({ id }: Caller, token: string): string | undefined {
      const digest = callers.keyDigest(id)
      if (digest === undefined || !isEqual(digest, hash('sha256', token, 'hex'))) return undefined
      const until = now() + LASTS_MS
      const value = `${Buffer.from(id).toString('base64url')}.${until}.${seal(id, until, digest)}`
      return `${NAME}=${value}; ${attributes(LASTS_MS / 1_000)}`
    },
    /** The Set-Cookie header that ends it. */
    end: () => `${NAME}=; ${attributes(0)}`,
    /** The session that a Cookie header holds; undefined without one that is valid now. */
    read(header: string | undefined): Session | undefined {
      const value = cookieIn(header)
      if (!value || value.length > LONGEST) return undefined
      const [name = '', until = '', code = ''] = value.split('.')
      const id = Buffer.from(name, 'base64url').toString()
      const [caller, digest] = [callers.byId(id), callers.keyDigest(id)]
      if (!caller || digest === undefined || !(Number(until) > now())) return undefined
      if (!isEqual(code, seal(id, Number(until), digest))) return undefined
      return { caller, csrf: seal('csrf', value) }
    },
    /** Whether a header's value is the session's `csrf`. */
    isOwn: ({ csrf }: Session, given: unknown) => typeof given === 'string' && isEqual(csrf, given),
  }
}

export type Sessions = ReturnType<typeof createSessions>
