/**
 * Who is at the console: the bearer of a key, as on every other path, or a browser with a session, into which signing in
 * makes a key. Both are one caller with one rate limit. The cookie of a session holds the caller's id, the time at which the
 * session ends, and an HMAC over both and the digest of the caller's key. So the server stores no session, every replica
 * reads it, it survives a restart, and it ends when the configuration no longer has that key. The key itself is not in the
 * cookie.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import { isRecord, tryParseJson } from '../adcp/json.js'
import { type Admission, createRateLimiter } from '../server/door/admission.js'
import type { Callers } from '../server/door/credentials.js'
import { hangUpSignal } from '../server/door/dispatcher.js'
import type { AddressOf, Door } from '../server/door/door.js'
import {
  limited,
  NEEDS_KEY,
  NEEDS_OPERATOR,
  refusePlainly,
  SIGNATURE_REQUIRED,
  type TurnedAway,
  turnedAway,
  unauthenticated,
} from '../server/door/turned-away.js'
import { readQuery } from '../server/parameters.js'
import { parametersOf } from './openapi.js'

const LASTS_MS = 12 * 3_600_000
const COOKIE = 'tributary_session'
const LONGEST_COOKIE = 1_024 // characters; every cookie of ours is shorter
const CSRF_HEADER = 'x-tributary-csrf'
const ATTEMPTS = { perSecond: 1, burst: 20 } // of one address: enough for people, far too few to guess a key

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

type Session = {
  caller: Caller
  /** What a request that changes something must repeat in a header: pages of other origins cannot read it. */
  csrf: string
}

/** The value of our cookie in a Cookie header (RFC 6265, section 5.4). */
function cookieIn(header: string | undefined): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (pair.slice(0, at).trim() === COOKIE) return pair.slice(at + 1).trim()
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
      return `${COOKIE}=${value}; ${attributes(LASTS_MS / 1_000)}`
    },
    /** The Set-Cookie header that ends it. */
    end: () => `${COOKIE}=; ${attributes(0)}`,
    /** The session that a Cookie header holds; undefined without one that is valid now. */
    read(header: string | undefined): Session | undefined {
      const value = cookieIn(header)
      if (!value || value.length > LONGEST_COOKIE) return undefined
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

type Sessions = ReturnType<typeof createSessions>

export type EntranceOptions = {
  door: Door
  sessions: Sessions
  admission: Pick<Admission, 'take' | 'signatures'>
  /**
   * Called once for each long question: it was answered, or it was left because its caller had closed the connection.
   */
  onAsked(outcome: 'answered' | 'left'): void
  now: () => number
}

/**
 * A caller with a key. `session`: it came with a cookie. `mustSign`: its requests must be signed (RFC 9421) and this one
 * is not, so it may read and may change nothing.
 */
type Visitor = { kind: 'visitor'; caller: Caller; mustSign: boolean; session?: Session }

type Answer = unknown
type Handler = (
  visitor: Visitor,
  request: FastifyRequest,
  reply: FastifyReply,
  params: URLSearchParams,
) => Answer | Promise<Answer>

const NOT_A_KEY: TurnedAway = { ...unauthenticated('invalid'), message: 'This is not the key of a caller' }
const isSafe = ({ method }: FastifyRequest) => method === 'GET' || method === 'HEAD'
const NOT_OURS = turnedAway(403, 0, `A request with a session must repeat its ${CSRF_HEADER}`)

/** Reads who asks, and guards routes: by key or session, rate limit, role and signature. */
export function createEntrance({ door, sessions, admission, onAsked, now }: EntranceOptions) {
  /** The caller of a request: by its session where it has no other credentials. Its rate limit and its role are not looked at yet. */
  async function identify(request: FastifyRequest): Promise<Visitor | TurnedAway> {
    const who = await door.enter(request)
    if (who.kind === 'denied') return turnedAway(403, 0, 'These credentials do not give access here')
    if (who.kind === 'turned_away' && who.reason !== NEEDS_KEY.reason) return who
    if (who.kind === 'caller' && who.caller.role !== 'anonymous')
      return { kind: 'visitor', caller: who.caller, mustSign: who.signature === 'required' }
    const session = sessions.read(request.headers.cookie)
    if (!session) return NEEDS_KEY
    const { caller } = session
    return {
      kind: 'visitor',
      caller,
      mustSign: admission.signatures()?.mustSign(caller.id) ?? false,
      session,
    }
  }

  async function admitted(request: FastifyRequest): Promise<Visitor | TurnedAway> {
    const visitor = await identify(request)
    if (visitor.kind === 'turned_away') return visitor
    const { caller, session } = visitor
    if (session && !isSafe(request) && !sessions.isOwn(session, request.headers[CSRF_HEADER])) return NOT_OURS
    const wait = admission.take(caller.id, now())
    return wait > 0 ? limited(wait) : visitor
  }

  const guarded =
    (handler: Handler, refuses: (visitor: Visitor, request: FastifyRequest) => TurnedAway | undefined) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
      const visitor = await admitted(request)
      if (visitor.kind === 'turned_away') return refusePlainly(reply, visitor)
      const refused = refuses(visitor, request)
      if (refused) return refusePlainly(reply, refused)
      const query = readQuery(request, parametersOf(request.routeOptions.url ?? '', request.method))
      return query.kind === 'bad'
        ? reply.code(400).send(query.problem)
        : handler(visitor, request, reply, query.params)
    }

  /**
   * Answers a question that is much work over a million signals. A page that asks anew, as it does at
   * each keystroke, closes the connection of the question before; then the signal is aborted, the work ends at its next
   * stop, and the answer is 503.
   */
  async function untilLeft(
    reply: FastifyReply,
    answer: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<unknown> {
    const signal = hangUpSignal({ response: reply.raw })
    try {
      const answered = await answer(signal)
      onAsked('answered')
      return answered
    } catch (error) {
      if (!signal.aborted) throw error
      onAsked('left')
      return reply.code(503).header('retry-after', '1').send({ error: 'The answer took too long' })
    }
  }

  return {
    identify,
    untilLeft,
    /** A route for every caller with a key. */
    forCallers: (handler: Handler) => guarded(handler, () => undefined),
    /** A route for operators. What changes something must be signed by those whose calls must. */
    forOperators: (handler: Handler) =>
      guarded(handler, ({ caller, mustSign }, request) => {
        if (caller.role !== 'operator') return NEEDS_OPERATOR
        return mustSign && !isSafe(request) ? SIGNATURE_REQUIRED : undefined
      }),
  }
}

export type Entrance = ReturnType<typeof createEntrance>

type SignInOptions = {
  entrance: Entrance
  sessions: Sessions
  identify: Callers['identify']
  /** Whose attempts are counted together. */
  addressOf: AddressOf
  version: string
  now: () => number
}

function describedCaller({ id, role, destinations, accounts }: Caller) {
  return { id, role, destinations, accounts: [...accounts.keys()] }
}

function keyIn(body: unknown): string | undefined {
  const given = body instanceof Uint8Array ? tryParseJson(body) : undefined
  return isRecord(given) && typeof given.key === 'string' && given.key !== '' ? given.key.trim() : undefined
}

/** `/console/api/session`: GET says who is signed in, POST signs in with a key, DELETE signs out. */
export function addSignIn(app: FastifyInstance, options: SignInOptions): void {
  const { entrance, sessions, identify, addressOf, version, now } = options
  const attempts = createRateLimiter(ATTEMPTS)

  app.get('/console/api/session', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await entrance.identify(request)
    if (who.kind === 'turned_away' && who.status !== 401) return refusePlainly(reply, who)
    if (who.kind === 'turned_away') return { version }
    const { caller, session } = who
    return { version, caller: describedCaller(caller), ...(session && { csrf: session.csrf }) }
  })

  app.post('/console/api/session', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const from = await entrance.identify(request)
    if (from.kind === 'turned_away' && from.status !== 401) return refusePlainly(reply, from)
    const address = addressOf(request.raw)
    const wait = attempts.take(address, now())
    if (wait > 0) return refusePlainly(reply, limited(wait))
    const key = keyIn(request.body)
    if (key === undefined)
      return reply.code(400).send({ error: 'Invalid key: expected a text', parameter: 'key' })
    const who = await identify({ authorization: `Bearer ${key}`, address })
    if (who.kind === 'guessing') return refusePlainly(reply, limited(who.seconds))
    const cookie = who.kind === 'caller' ? sessions.open(who.caller, key) : undefined
    if (who.kind !== 'caller' || cookie === undefined) return refusePlainly(reply, NOT_A_KEY)
    return reply.header('set-cookie', cookie).send({ caller: describedCaller(who.caller), version })
  })

  app.delete(
    '/console/api/session',
    entrance.forCallers((_visitor, _request, reply) =>
      reply.header('set-cookie', sessions.end()).code(204).send(),
    ),
  )
}
