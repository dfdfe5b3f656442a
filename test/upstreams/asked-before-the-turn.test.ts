/** What was asked of the process that read an agent, and that it had not done when it ended, is done by the next. */
import { type Test, test } from 'tap'
import type { Hear } from '../../src/upstreams/rows/storage.js'
import { OTHERS_TURNS } from '../support/others-turns.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, until, urlOf } from '../support/upstream-world.js'

const HOUR_MS = 3_600_000

/** A process that does not read the agent, and hears that another will read it in an hour. */
async function following(t: Test) {
  let readings = 0
  const agent = await startMcpAgent((task) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    readings += 1
    return { status: 'completed', signals: [] }
  })
  t.teardown(agent.close)
  const hears = new Map<string, Hear>()
  const listeners: (() => void)[] = []
  let isOurs = false
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, protocol: 'mcp' }]), {
    sharing: {
      ...OTHERS_TURNS,
      turn: (name) => (isOurs ? { name, epoch: 1 } : undefined),
      onTurns: (listener) => void listeners.push(listener),
      hear: (prefix, listener) => void hears.set(prefix, listener),
    },
  })
  await upstreams.start()
  const tell = (prefix: string, value: unknown, order: number) =>
    hears.get(prefix)?.(`${prefix}public/${urlOf(upstreams, 'a')}`, value, 0, order)
  return {
    readings: () => readings,
    nextAt: () => upstreams.statuses()[0]?.nextAttemptAt ?? 0,
    /** The other has read it, and served the requests up to that one. */
    read: (serves: number, order: number) =>
      tell('reading/', { answered: true, failures: 0, nextInMs: HOUR_MS, serves }, order),
    ask: (how: string, order: number) => tell('hurry/', how, order),
    takeTurn(): void {
      isOurs = true
      for (const listener of listeners) listener()
    },
  }
}

for (const how of ['soon', 'whole']) {
  test(`whoever takes the turn reads at once what it was asked for after the last reading: ${how}`, async (t) => {
    const { read, ask, takeTurn, readings } = await following(t)
    read(1, 2)
    ask(how, 3)
    takeTurn()
    await until('it is read', () => readings() > 0)
  })
}

test('what a reading served is not asked for again', async (t) => {
  const { read, ask, takeTurn, readings, nextAt } = await following(t)
  ask('soon', 1)
  read(1, 2)
  takeTurn()
  t.ok(nextAt() > Date.now() + HOUR_MS / 2, 'it is read when the other would have read it')
  t.equal(readings(), 0)
})
