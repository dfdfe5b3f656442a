/**
 * Where the server listens: its agent card and its signed identity name that address, so it is known before. And its way
 * out of service: first it says that it is not ready, and answers all the same for so long.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../../config/values.js'
import { type Clock, pause } from '../../net/clock.js'

async function freePort(host: string): Promise<number> {
  const probe = createServer().listen(0, host)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/**
 * Builds the server for its public url and listens. Throws when the address cannot be listened on.
 * With port 0 a free port is looked up; when another process takes it first, the server is built for the next one.
 */
export async function listening(
  { host, port, publicUrl }: Pick<Config['listen'], 'host' | 'port' | 'publicUrl'>,
  build: (publicUrl: string) => FastifyInstance,
): Promise<{ app: FastifyInstance; url: string }> {
  for (;;) {
    const own = port === 0 ? await freePort(host) : port
    const app = build(publicUrl ?? `http://${host}:${own}`)
    try {
      return { app, url: await app.listen({ host, port: own }) }
    } catch (error) {
      await app.close()
      if (port !== 0 || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

/** `ms`: how long load balancers are given to see it. */
export function createDraining(clock: Clock, ms: number) {
  let hasBegun = false
  return {
    hasBegun: () => hasBegun,
    /** Resolves when whoever sends requests has had the time to look. */
    async drain(): Promise<void> {
      hasBegun = true
      await pause(clock, ms)
    },
  }
}
