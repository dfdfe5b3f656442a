/**
 * A whole Tributary in a process of its own: configuration, storage, feed, server. Told by its parent what to run on, and
 * at which step of an activation to hold requests until it is killed.
 */
import { pino } from 'pino'
import type { Checkpoint } from '../../../src/activation/delivery.js'
import { startFederation } from '../../../src/composition/federation.js'
import { parseConfig } from '../../../src/config/load.js'
import { systemClock } from '../../../src/net/clock.js'

/** `run`: the configuration file's text. `hold`: from now on, whatever comes to this step goes no further. */
export type Order = { run?: string; hold?: Checkpoint }
export type Report = { kind: 'open'; url: string } | { kind: 'holding' } | { kind: 'held' }

const report = (told: Report) => process.send?.(told)

let hold: Checkpoint | undefined

async function run(text: string): Promise<void> {
  const { url, ready } = await startFederation({
    config: parseConfig('crash test', text, {}),
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: 'silent' }),
    reached(checkpoint) {
      if (checkpoint !== hold) return undefined
      report({ kind: 'held' })
      return new Promise(() => {}) // until the process ends
    },
  })
  await ready
  report({ kind: 'open', url })
}

process.on('message', (order: Order) => {
  hold = order.hold
  if (order.run !== undefined) void run(order.run)
  else report({ kind: 'holding' })
})
process.once('disconnect', () => process.exit()) // an aborted test leaves nothing behind
