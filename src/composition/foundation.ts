/**
 * What every other part stands on: the stack of what was started, which is stopped in the opposite order; the ways out to
 * the network, with the demo world's hosts where a configuration asks for it; the storage and the time that comes with it;
 * the configuration in force; this process among others, and the secret that all of them share. The demo world is a
 * workspace of its own (`sandbox/`), reached over loopback HTTP like anybody's agents, loaded only when it is wanted, and no
 * part of the published package.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { ConfigError, DEMO_WORLD, holdsDemoWorld } from '../config/load.js'
import type { Config } from '../config/values.js'
import { createCourier } from '../events/courier.js'
import type { Post } from '../events/letter.js'
import { webhookPolicy } from '../events/webhook.js'
import { type Clock, createSharedTime } from '../net/clock.js'
import { createEgress } from '../net/egress.js'
import type { Send } from '../net/send.js'
import type { RunningConfiguration } from '../server/monitoring.js'
import { SNAPSHOT_FORM } from '../snapshot/snapshot.js'
import { openingWork } from '../store/database/storage-work.js'
import { cursorSecret } from '../store/replicas/cursors.js'
import { createReplica } from '../store/replicas/replica.js'
import { openStore } from '../store/store.js'
import { createInForce, type InForce } from './running-config.js'

const ALIVE_MS = 60_000 // any time: that a timer is set keeps the process alive
/** Signals of the demo world when nothing else is said. */
const SIGNALS = 2_400

type Part = { close(): unknown }

/**
 * What was started, to be stopped in the opposite order: each part before those that it stands on. One that cannot be
 * stopped keeps none of the others from being.
 */
export function createStack() {
  const parts: Part[] = []

  /** What went wrong, if anything did. */
  async function stopped(part: Part): Promise<unknown[]> {
    try {
      await part.close()
      return []
    } catch (error) {
      return [error]
    }
  }

  return {
    /** Gives the part back. */
    add<T extends Part>(part: T): T {
      parts.push(part)
      return part
    },
    /** Throws when all are stopped, if one of them failed: what the first of them threw. */
    async close(): Promise<void> {
      const errors: unknown[] = []
      for (const part of parts.splice(0).reverse()) errors.push(...(await stopped(part)))
      if (errors.length > 0) throw errors[0]
    },
  }
}

export type Stack = ReturnType<typeof createStack>

type DemoWorld = {
  /** Domains of the demo world and the loopback origins that stand for them, as `egress.hosts` wants them. */
  hosts: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Starts the demo world; undefined when the configuration wants none. Throws a ConfigError where there is none to start. */
async function openDemoWorld(config: Config, signals = SIGNALS): Promise<DemoWorld | undefined> {
  if (!config.sandbox) return undefined
  if (!holdsDemoWorld()) {
    const expected = 'false, or a clone of the repository: the published package holds no demo world'
    throw new ConfigError(config.file, [{ path: 'sandbox', expected, got: 'true' }])
  }
  const { startSandbox } = (await import(DEMO_WORLD.href)) as typeof import('../../sandbox/world.js')
  return startSandbox({ signals })
}

type WaysOutOptions = {
  inForce: InForce
  sandboxSignals: number | undefined
  /** Stands before what goes to places that callers name. */
  postThrough?: (post: Post) => Post
}

/** For a server: as each configuration wants them. `post`: to places that callers name. */
async function openWaysOut(options: WaysOutOptions, stack: Stack) {
  const { inForce, sandboxSignals, postThrough = (post) => post } = options
  const demo = await openDemoWorld(inForce.file(), sandboxSignals)
  const hosts = demo ? stack.add(demo).hosts : {}
  const policyOf = ({ egress }: Config) => ({ ...egress, hosts: { ...hosts, ...egress.hosts } })
  const egress = stack.add(
    createEgress({
      policy: policyOf(inForce.file()),
      underWayBytes: () => inForce.file().limits.underWayBytes,
    }),
  )
  const { egress: ways, events } = inForce.file()
  const courier = stack.add(createCourier({ policy: webhookPolicy(ways), key: events.signingKey }))
  inForce.onChange((config) => {
    egress.reconfigure(policyOf(config))
    courier.reconfigure(webhookPolicy(config.egress))
  })
  return {
    send: egress.send,
    post: postThrough(courier.post),
    /** Bytes of answers that are being read. */
    underWay: egress.underWay,
  }
}

/**
 * For a command. A sandbox is a world of its own: the one of a running server cannot be reached from here, so an equal
 * one is made.
 */
export async function openWayOut(config: Config): Promise<{ send: Send; close(): Promise<void> }> {
  const sandbox = await openDemoWorld(config)
  const hosts = { ...sandbox?.hosts, ...config.egress.hosts }
  const egress = createEgress({ policy: { ...config.egress, hosts } })
  // The clock's timers do not keep a process alive; a command has to wait until it closes this.
  const alive = setInterval(() => {}, ALIVE_MS)
  return {
    send: egress.send,
    async close() {
      clearInterval(alive)
      await egress.close()
      await sandbox?.close()
    },
  }
}

export type FoundationOptions = {
  config: Config
  sandboxSignals?: number
  /** What /readyz says of the configuration file. */
  configuration?: () => RunningConfiguration
  clock: Clock
  random: () => number
  log: Logger
  /** Stands before what goes to places that callers name: a test on a busy machine has more patience with them. */
  postThrough?: (post: Post) => Post
}

/** The storage, and the clock of all parts: where several processes share the storage, the clock of its database. */
async function openStorage({ storage }: Config, own: Clock, log: Logger, stack: Stack) {
  const onProblem = (problem: string) => log.warn({ problem }, 'storage')
  const time = stack.add(createSharedTime({ own, onProblem }))
  const { clock } = time
  const { answersMs } = storage.retention
  const store = stack.add(await openStore({ ...storage, answersMs, now: clock.now, onProblem }))
  if (store.replicas) await time.follow(store.replicas.now)
  return { store, clock }
}

/** Throws when the storage cannot be opened. */
export async function layFoundation(options: FoundationOptions, stack: Stack) {
  const { configuration, random, log, sandboxSignals, postThrough } = options
  const inForce = createInForce(options.config)
  const config = inForce.file
  const { store, clock } = await openStorage(options.config, options.clock, log, stack)
  const waysOut = await openWaysOut({ inForce, sandboxSignals, ...(postThrough && { postThrough }) }, stack)
  const replica =
    store.replicas &&
    stack.add(
      createReplica({
        ...{ replicas: store.replicas, clock, log },
        ...{ self: randomUUID(), revision: () => config().revision, form: SNAPSHOT_FORM },
      }),
    )
  const warning = (room: string) => (message: string) => log.warn({ message }, room)
  return {
    ...{ inForce, config, store, clock, random, log, ...waysOut, replica, warning },
    /** As it was at the start, for what only a start takes up. */
    first: options.config,
    /** What cursors and sessions are signed with. */
    secret: await openingWork(() => cursorSecret(store.blobs)),
    /** What a server says of the configuration that it runs. */
    running: (): RunningConfiguration => ({
      ...(configuration?.() ?? { revision: config().revision }),
      ...(replica && { replicas: replica.revisions.live() }),
    }),
  }
}

export type Foundation = Awaited<ReturnType<typeof layFoundation>>
