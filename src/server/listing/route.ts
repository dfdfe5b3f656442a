/** The route of the registry listing: who may read it, its query, and the answer, which a reader that has it already is spared. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { etagOf, sendUnlessHeld } from '../answer/conditional.js'
import type { Entered, RateLimiter } from '../door/admission.js'
import type { Door } from '../door/door.js'
import { limited, refusePlainly, type TurnedAway, turnedAway } from '../door/turned-away.js'
import { readListingQuery } from './listing-query.js'
import type { createRegistryListing } from './registry-listing.js'

export type ListingRouteOptions = {
  door: Door
  limiter: RateLimiter
  now(): number
  list: ReturnType<typeof createRegistryListing>['list']
}

/** Whoever may call this agent may read the listing: `callers.anonymous` decides for callers without a key. */
export function addRegistryListing(
  app: FastifyInstance,
  { door, limiter, now, list }: ListingRouteOptions,
): void {
  function objection(who: Entered | TurnedAway): TurnedAway | undefined {
    if (who.kind === 'turned_away') return who
    const wait = limiter.take(who.bucket, now())
    if (wait > 0) return limited(wait)
    if (who.kind === 'caller') return undefined
    return turnedAway(403, 0, 'These credentials give no access here')
  }

  app.get('/api/registry/agents', async (request: FastifyRequest, reply) => {
    const refused = objection(await door.enter(request))
    if (refused) return refusePlainly(reply, refused)
    const query = readListingQuery(new URL(request.url, 'http://localhost').searchParams)
    if ('error' in query) return reply.code(400).header('cache-control', 'no-store').send(query)
    const { via = '' } = request.headers
    const body = await list(query, String(via))
    reply.headers({ 'cache-control': 'no-cache', vary: 'authorization' })
    return sendUnlessHeld(request, reply.type('application/json; charset=utf-8'), etagOf(body), body)
  })
}
