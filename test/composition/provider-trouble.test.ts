import { test } from 'tap'
import { lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, providerRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

const PROVIDER = 'alpha.example'
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

test('a provider that answers 403, an error or a page in the place of its file loses no row; one that has no file does', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { agents: 1, clock })
  const [agent] = world.agents as [Agent]
  agent.offer(Array.from({ length: 8 }, (_, at) => providerRow(PROVIDER, at, 2)))
  const pace = { staleAfterMs: DAY_MS, dropAfterMs: DAY_MS } // the upstream is well, however far time is moved
  await world.start({ statics: [{ id: 'a', agent }], providersMs: MINUTE_MS, pace })
  const before = await until(world.page, (answer) => total(answer) === 8)

  /** Its answer has been taken up when it is asked for the next time. */
  async function lookedAtTwice(): Promise<void> {
    const asked = world.providers.asked(PROVIDER)
    await until(
      async () => shift(MINUTE_MS / 4),
      () => world.providers.asked(PROVIDER) >= asked + 2,
    )
  }

  for (const mode of ['forbids', 'page', 'fails'] as const) {
    world.providers.behave(PROVIDER, mode)
    await lookedAtTwice()
    const during = await world.page()
    t.equal(total(during), 8, mode)
    t.equal(during.wholesale_feed_version, before.wholesale_feed_version, mode)
    t.equal(lacks(during), '', mode)
  }
  world.providers.behave(PROVIDER, 'gone')
  await lookedAtTwice()
  await until(world.page, (answer) => total(answer) === 0)
})
