/**
 * Who is at the console: the bearer of a key, as on every other path, or a browser with a session. Both are one caller
 * with one rate limit.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import type { TurnedAway } from '../server/door/admission.js'
import { type Door, limited, refusePlainly } from '../server/door/door.js'
import type { RateLimiter } from '../server/door/rate-limit.js'
import type { Session, Sessions } from './session.js'

const CSRF_HEADER = 'x-tributary-csrf'

type EntranceOptions = {
  door: Door
  sessions: Sessions
  limiter: RateLimiter
  now: () => number
}

/** A caller with a key. `session`: it came with a cookie. */
export type Visitor = { kind: 'visitor'; caller: Caller; session?: Session }

type Answer = unknown
type Handler = (visitor: Visitor, request: FastifyRequest, reply: FastifyReply) => Answer | Promise<Answer>

const refusal = (status: number, message: string): TurnedAway => ({
  ...{ kind: 'turned_away' as const, status, code: 0, message },
})

const NEEDS_KEY = refusal(401, 'This needs the key of a caller')
const NEEDS_OPERATOR = refusal(403, 'This needs a key with role: operator')
const NOT_OURS = refusal(403, `A request with a session must repeat its ${CSRF_HEADER}`)

export function createEntrance({ door, sessions, limiter, now }: EntranceOptions) {
  /** The caller of a request, whatever it may ask. */
  async function identify(request: FastifyRequest): Promise<Visitor | TurnedAway> {
    const who = await door.enter(request)
    if (who.kind === 'denied') return refusal(403, 'These credentials do not give access here')
    if (who.kind === 'turned_away' && who.status !== 401) return who
    if (who.kind === 'caller' && who.caller.role !== 'anonymous')
      return { kind: 'visitor', caller: who.caller }
    if (request.headers.authorization !== undefined) return who.kind === 'turned_away' ? who : NEEDS_KEY
    const session = sessions.read(request.headers.cookie)
    return session ? { kind: 'visitor', caller: session.caller, session } : NEEDS_KEY
  }

  async function admitted(request: FastifyRequest): Promise<Visitor | TurnedAway> {
    const visitor = await identify(request)
    if (visitor.kind === 'turned_away') return visitor
    const { caller, session } = visitor
    const isSafe = request.method === 'GET' || request.method === 'HEAD'
    if (session && !isSafe && !sessions.isOwn(session, request.headers[CSRF_HEADER])) return NOT_OURS
    const wait = limiter.take(caller.id, now())
    return wait > 0 ? limited(wait) : visitor
  }

  const guarded =
    (handler: Handler, refuses: (visitor: Visitor) => TurnedAway | undefined) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      reply.header('cache-control', 'no-store')
      const visitor = await admitted(request)
      if (visitor.kind === 'turned_away') return refusePlainly(reply, visitor)
      const refused = refuses(visitor)
      return refused ? refusePlainly(reply, refused) : handler(visitor, request, reply)
    }

  return {
    identify,
    /** A route for every caller with a key. */
    forCallers: (handler: Handler) => guarded(handler, () => undefined),
    /** A route for operators. */
    forOperators: (handler: Handler) =>
      guarded(handler, ({ caller }) => (caller.role === 'operator' ? undefined : NEEDS_OPERATOR)),
  }
}

export type Entrance = ReturnType<typeof createEntrance>
