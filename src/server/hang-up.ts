/** The signal that a task stops on: its caller hung up, or its time is over (DESIGN 5.7). */
import type { FastifyReply } from 'fastify'

/** Made only when a task asks for it; most answer before anybody could hang up. */
export function hangUpSignal({ raw }: FastifyReply, timeoutMs: number): AbortSignal {
  const controller = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort()
  })
  return AbortSignal.any([controller.signal, AbortSignal.timeout(timeoutMs)])
}
