/**
 * What every other part stands on: the configuration in force, the storage and the time that comes with it, the ways out
 * to the network, this process among others, the secret that all of them share.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Config } from '../../config/values.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import type { RunningConfiguration } from '../../server/health.js'
import { SNAPSHOT_FORM } from '../../snapshot/snapshot-parts.js'
import { createReplica, cursorSecret } from '../../store/replicas/replica.js'
import { createSharedTime } from '../../store/replicas/shared-time.js'
import { openStore } from '../../store/store.js'
import { createInForce } from '../configuration/in-force.js'
import type { Stack } from './stack.js'
import { openWaysOut } from './way-out.js'

export type FoundationOptions = {
  config: Config
  sandboxSignals?: number
  /** What /readyz says of the configuration file. */
  configuration?: () => RunningConfiguration
  clock: Clock
  random: () => number
  log: Logger
  /** Stands before what goes to places that callers name: a test on a busy machine has more patience with them. */
  sendToCallers?: (send: Send) => Send
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
  const { configuration, random, log, sandboxSignals, sendToCallers } = options
  const inForce = createInForce(options.config)
  const config = inForce.file
  const { store, clock } = await openStorage(options.config, options.clock, log, stack)
  const waysOut = await openWaysOut(
    { inForce, sandboxSignals, ...(sendToCallers && { sendToCallers }) },
    stack,
  )
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
    secret: await cursorSecret(store.blobs),
    /** What a server says of the configuration that it runs. */
    running: (): RunningConfiguration => ({
      ...(configuration?.() ?? { revision: config().revision }),
      ...(replica && { replicas: replica.revisions.live() }),
    }),
  }
}

export type Foundation = Awaited<ReturnType<typeof layFoundation>>
