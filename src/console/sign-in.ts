/** Signing in and out: a key becomes a session, and the page learns who it is. */
import type { FastifyInstance } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { Callers } from '../server/door/credentials.js'
import { limited, refusePlainly } from '../server/door/door.js'
import type { AddressOf } from '../server/door/origin.js'
import { createRateLimiter } from '../server/door/rate-limit.js'
import type { Entrance } from './entrance.js'
import type { Sessions } from './session.js'

const ATTEMPTS = { perSecond: 1, burst: 20 } // of one address: enough for people, far too few to guess a key

type SignInOptions = {
  entrance: Entrance
  sessions: Sessions
  identify: Callers['identify']
  /** Whose attempts are counted together. */
  addressOf: AddressOf
  version: string
  now: () => number
}

function described({ id, role, destinations, accounts }: Caller) {
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
    return { version, caller: described(caller), ...(session && { csrf: session.csrf }) }
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
    if (who.kind !== 'caller' || cookie === undefined) {
      return reply.code(401).send({ error: 'This is not the key of a caller' })
    }
    return reply.header('set-cookie', cookie).send({ caller: described(who.caller), version })
  })

  app.delete(
    '/console/api/session',
    entrance.forCallers((_visitor, _request, reply) =>
      reply.header('set-cookie', sessions.end()).code(204).send(),
    ),
  )
}
