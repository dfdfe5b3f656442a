/**
 * The ways out to the network: the configured egress, and the demo world's hosts where a configuration asks for it. The demo
 * world is a workspace of its own (`sandbox/`), reached over loopback HTTP like anybody's agents, loaded only when it is
 * wanted, and no part of the published package.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../../config/problem.js'
import type { Config } from '../../config/values.js'
import { webhookPolicy } from '../../events/webhook.js'
import { createEgress } from '../../net/egress.js'
import type { Send } from '../../net/send.js'
import type { InForce } from '../configuration/in-force.js'
import type { Stack } from './stack.js'

const LONG_MS = 60_000
/** Signals of the demo world when nothing else is said. */
const SIGNALS = 2_400
const WORLD = new URL('../../../sandbox/world.js', import.meta.url)

type DemoWorld = {
  /** Domains of the demo world and the loopback origins that stand for them, as `egress.hosts` wants them. */
  hosts: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Starts the demo world; undefined when the configuration wants none. Throws a ConfigError where there is none to start. */
async function openDemoWorld(config: Config, signals = SIGNALS): Promise<DemoWorld | undefined> {
  if (!config.sandbox) return undefined
  if (!existsSync(fileURLToPath(WORLD))) {
    const expected = 'false, or a clone of the repository: the published package holds no demo world'
    throw new ConfigError(config.file, [{ path: 'sandbox', expected, got: 'true' }])
  }
  const { startSandbox } = (await import(WORLD.href)) as typeof import('../../../sandbox/world.js')
  return startSandbox({ signals })
}

type WaysOutOptions = {
  inForce: InForce
  sandboxSignals: number | undefined
  /** Stands before what goes to places that callers name. */
  sendToCallers?: (send: Send) => Send
}

/** For a server: as each configuration wants them. `sendToCallers`: to places that callers name. */
export async function openWaysOut(options: WaysOutOptions, stack: Stack) {
  const { inForce, sandboxSignals, sendToCallers = (send) => send } = options
  const demo = await openDemoWorld(inForce.file(), sandboxSignals)
  const hosts = demo ? stack.add(demo).hosts : {}
  const policyOf = ({ egress }: Config) => ({ ...egress, hosts: { ...hosts, ...egress.hosts } })
  const egress = stack.add(
    createEgress({
      policy: policyOf(inForce.file()),
      underWayBytes: () => inForce.file().limits.underWayBytes,
    }),
  )
  const toCallers = stack.add(createEgress({ policy: webhookPolicy(inForce.file().egress) }))
  inForce.onChange((config) => {
    egress.reconfigure(policyOf(config))
    toCallers.reconfigure(webhookPolicy(config.egress))
  })
  return {
    send: egress.send,
    sendToCallers: sendToCallers(toCallers.send),
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
  const alive = setInterval(() => {}, LONG_MS)
  return {
    send: egress.send,
    async close() {
      clearInterval(alive)
      await egress.close()
      await sandbox?.close()
    },
  }
}
