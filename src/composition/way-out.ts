/** The way out to the network for a command: the configured egress, and the sandbox's hosts where that is wanted. */
import type { Config } from '../config/values.js'
import { createEgress } from '../net/egress.js'
import type { Send } from '../net/send.js'
import { openDemoWorld } from './demo-world.js'

const LONG_MS = 60_000

/** A sandbox is a world of its own: the one of a running server cannot be reached from here, so an equal one is made. */
export async function openWayOut(config: Config): Promise<{ send: Send; close(): Promise<void> }> {
  const sandbox = await openDemoWorld(config)
  const hosts = { ...sandbox?.hosts, ...config.egress.hosts }
  const egress = createEgress({ policy: { ...config.egress, hosts } })
  // The clock's timers let a process end that waits for nothing else; a command waits until it closes this.
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
