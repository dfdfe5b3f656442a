/**
 * The sides of the activation benchmark that are not measured from within: `node activation-server.js agents` is the
 * sandbox; without an argument it is a whole Tributary, run on the configuration that its parent sends. It answers each
 * message after that with the longest stop of its event loop since the one before, and its CPU time so far, ms.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pino } from 'pino'
import { startSandbox } from '../sandbox/world.js'
import { startFederation } from '../src/composition/federation.js'
import { parseConfig } from '../src/config/load.js'
import { systemClock } from '../src/net/clock.js'

const SIGNALS = 240

async function agents(): Promise<void> {
  const sandbox = await startSandbox({ signals: SIGNALS })
  process.on('message', () => process.send?.({ activations: sandbox.agents.northwind.activations() }))
  process.send?.({ url: sandbox.agents.northwind.url, hosts: sandbox.hosts })
}

async function tributary(text: string): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const { url, ready } = await startFederation({
    config: parseConfig('benchmark', text, {}),
    version: '0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: 'silent' }),
  })
  await ready
  delay.enable()
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.({ stopMs: delay.max / 1e6, cpuMs: (user + system) / 1e3 })
    delay.reset()
  })
  process.send?.({ url })
}

if (process.argv[2] === 'agents') await agents()
else process.once('message', (text: string) => void tributary(text))
process.once('disconnect', () => process.exit()) // an aborted benchmark leaves nothing behind
