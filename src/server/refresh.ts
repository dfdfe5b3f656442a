/** POST /refresh?upstream=ID: reads an upstream from its first row to its last, whatever its tokens say. For operators only. */
import type { FastifyInstance } from 'fastify'
import { type Door, refusePlainly } from './door/door.js'
import { SIGNATURE_REQUIRED } from './door/signature-gate.js'

export type RefreshOptions = {
  door: Door
  /** Starts the reading for the operator `who`; false when there is no upstream of this id. */
  refresh(id: string, who: string): Promise<boolean>
}

export function addRefresh(app: FastifyInstance, { door, refresh }: RefreshOptions): void {
  app.post('/refresh', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await door.enter(request)
    if (who.kind === 'turned_away') return refusePlainly(reply, who)
    if (who.kind !== 'caller' || who.caller.role !== 'operator') {
      return reply.code(403).send({ error: 'This needs a key with role: operator' })
    }
    if (who.signature === 'required') return refusePlainly(reply, SIGNATURE_REQUIRED)
    const upstream = new URL(request.url, 'http://localhost').searchParams.get('upstream') ?? ''
    if (await refresh(upstream, who.caller.id)) return reply.code(202).send({ upstream, reading: 'full' })
    return reply.code(404).send({ error: 'Invalid upstream: no upstream has this id', parameter: 'upstream' })
  })
}
