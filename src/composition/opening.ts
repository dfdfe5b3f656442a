/**
 * When the feed opens after a start. With saved slices at once: what was good before the restart is good now. Otherwise
 * when every upstream has answered and everything that follows from the answers was read, but not later than a limit:
 * then with what is there, and `incomplete[]` names the rest.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Providers } from '../authz/provider/providers.js'
import type { Config } from '../config/values.js'
import { type Clock, pause } from '../net/clock.js'
import { createSharedTime } from '../store/replicas/shared-time.js'
import { openStore } from '../store/store.js'
import type { UpstreamStatus } from '../upstreams/agent/status.js'
import type { Upstreams } from '../upstreams/upstreams.js'

const OPEN_AFTER_MS = 5_000 // by default
const POLL_MS = 20

type OpeningOptions = {
  upstreams: Upstreams
  providers: Providers
  clock: Clock
  /** How long it waits for upstreams that do not answer, ms. */
  openAfterMs?: number | undefined
}

/** While a scope is read its next attempt is not ahead. */
export function isSettled({ nextAttemptAt = 0, awaited = false }: UpstreamStatus, now: number): boolean {
  return nextAttemptAt > now && !awaited
}

/** Resolves when the first snapshot should be built. Call it once `upstreams.start()` has resolved. */
export async function opening({
  upstreams,
  providers,
  clock,
  openAfterMs = OPEN_AFTER_MS,
}: OpeningOptions): Promise<void> {
  const until = clock.now() + openAfterMs
  async function poll(holds: () => boolean): Promise<void> {
    while (!holds() && clock.now() < until) await pause(clock, POLL_MS)
  }
  const upstreamsSettled = () =>
    poll(() =>
      [...upstreams.statuses(), ...upstreams.accountStatuses()].every((status) =>
        isSettled(status, clock.now()),
      ),
    )
  const providersSettled = () => Promise.race([providers.settled(), pause(clock, until - clock.now())])

  if (upstreams.slices().length === 0) {
    await poll(() => upstreams.registries().every(({ fetchedAt, problem }) => fetchedAt ?? problem))
    await upstreamsSettled()
    await providersSettled()
    await upstreamsSettled()
  }
  await providersSettled()
}

/** Where the server listens. Its agent card and its signed identity name that address, so it is known before. */
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

/** The way out of service: first the server says that it is not ready, and answers all the same for so long, ms. */
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

/** What was started, to be stopped in the opposite order. */
export function createStack() {
  const closers: (() => void | Promise<void>)[] = []
  return {
    add<T extends { close(): unknown }>(part: T): T {
      closers.push(async () => void (await part.close()))
      return part
    },
    async close(): Promise<void> {
      for (const close of closers.splice(0).reverse()) await close()
    },
  }
}

export type Stack = ReturnType<typeof createStack>

/**
 * The storage, and the clock of all parts: where several processes share the storage, the clock of its database.
 * Throws when the storage cannot be opened.
 */
export async function openStorage({ storage }: Config, own: Clock, log: Logger, stack: Stack) {
  const onProblem = (problem: string) => log.warn({ problem }, 'storage')
  const time = stack.add(createSharedTime({ own, onProblem }))
  const { clock } = time
  const { answersMs } = storage.retention
  const store = stack.add(await openStore({ ...storage, answersMs, now: clock.now, onProblem }))
  if (store.replicas) await time.follow(store.replicas.now)
  return { store, clock }
}
