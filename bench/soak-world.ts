/**
 * The federation that `soak.ts` loads, in a process of its own: one agent reprices all the time, one loses signals now and
 * then, one hangs. It answers every message with its memory and CPU so far, its garbage collected first.
 */
import { startWorld } from '../test/support/federation.js'

const SIGNALS = 2_400
const HUNG_MS = 120_000

function collect(): void {
  // Set by the flag --expose-gc: what is left after it is what is held.
  const { gc } = globalThis as { gc?: () => void }
  gc?.()
}

async function main() {
  const world = await startWorld({
    signals: SIGNALS,
    config: () => ({ defaults: { refresh: '1s', timeout: '3s', stale_after: '10s' } }),
  })
  const { sandbox, federation } = world
  sandbox.delay('signals.harborlight.example', HUNG_MS)
  const { northwind, meridian } = sandbox.agents
  const changes = [
    setInterval(() => northwind?.reprice(), 2_000),
    setInterval(() => meridian?.withdraw(1), 15_000),
  ]

  process.on('message', async (message) => {
    if (message === 'stop') {
      for (const timer of changes) clearInterval(timer)
      await world.close()
      process.exit()
    }
    collect()
    const { heapUsed, external, rss } = process.memoryUsage()
    process.send?.({
      heapUsed,
      external,
      rss,
      cpu: process.cpuUsage(),
      version: federation.feed.current()?.id,
      retained: federation.feed.retained(),
    })
  })
  process.once('disconnect', () => process.exit()) // an aborted soak leaves nothing behind
  process.send?.({ url: federation.url })
}

if (process.send) await main()
