/**
 * Who is at the console: the bearer of a key, as on every other path, or a browser with a session. Both are one caller
 * with one rate limit.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import type { Admission, TurnedAway } from '../server/door/admission.js'
import { hangUpSignal } from '../server/door/dispatcher.js'
import { type Door, limited, NEEDS_OPERATOR, refusePlainly } from '../server/door/door.js'
import { SIGNATURE_REQUIRED } from '../server/door/signature-gate.js'
import type { Session, Sessions } from './session.js'

const CSRF_HEADER = 'x-tributary-csrf'

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
type Handler = (visitor: Visitor, request: FastifyRequest, reply: FastifyReply) => Answer | Promise<Answer>

const refusal = (status: number, message: string): TurnedAway => ({
  ...{ kind: 'turned_away' as const, status, code: 0, message },
})

const NEEDS_KEY = refusal(401, 'This needs the key of a caller')
const isSafe = ({ method }: FastifyRequest) => method === 'GET' || method === 'HEAD'
const NOT_OURS = refusal(403, `A request with a session must repeat its ${CSRF_HEADER}`)

/** Reads who asks, and guards routes: by key or session, rate limit, role and signature. */
export function createEntrance({ door, sessions, admission, onAsked, now }: EntranceOptions) {
  /** The caller of a request. Its rate limit and its role are not looked at yet. */
  async function identify(request: FastifyRequest): Promise<Visitor | TurnedAway> {
    const who = await door.enter(request)
    if (who.kind === 'denied') return refusal(403, 'These credentials do not give access here')
    if (who.kind === 'turned_away' && who.status !== 401) return who
    if (who.kind === 'caller' && who.caller.role !== 'anonymous')
      return { kind: 'visitor', caller: who.caller, mustSign: who.signature === 'required' }
    if (request.headers.authorization !== undefined) return who.kind === 'turned_away' ? who : NEEDS_KEY
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
      return refused ? refusePlainly(reply, refused) : handler(visitor, request, reply)
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
