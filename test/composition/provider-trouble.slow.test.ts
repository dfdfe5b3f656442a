import { test } from 'tap'
import { DEAL, lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow, providerRow } from './support/scripted-agents.js'
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

const rows = (count: number) => Array.from({ length: count }, (_, at) => providerRow(PROVIDER, at, 2))
const named = /Signals of a0 wait for the files of their providers/

test('rows whose file could never be read are named, whatever kept it from being read, also after a restart', async (t) => {
  const world = await startScripted(t, { agents: 1 })
  const [agent] = world.agents as [Agent]
  agent.offer([...rows(3), ownRow(agent.url, 0, 2)])
  const settings = { statics: [{ id: 'a0', agent }], providersMs: MINUTE_MS }
  for (const [mode, words] of [
    ['fails', /cannot be fetched: alpha\.example/],
    ['drops', /cannot be fetched: alpha\.example/],
    ['forbids', /cannot be fetched: alpha\.example/],
    ['page', /cannot be read as such: alpha\.example/],
    ['moves', /redirect to where we may not follow: alpha\.example/],
  ] as const) {
    world.providers.behave(PROVIDER, mode)
    await world.start(settings)
    const answer = await until(world.page, (one) => words.test(lacks(one)))
    t.match(lacks(answer), named, mode)
    t.equal(total(answer), 1, mode)
    t.match(lacks(await world.page(DEAL)), words, `${mode}, to an account`)
    await world.stop()
  }
  await world.start(settings)
  t.match(lacks(await world.page()), named, 'after a restart')
})

test('that there is no file is a decision, and that our limits leave none is not', async (t) => {
  const world = await startScripted(t, { agents: 1 })
  const [agent] = world.agents as [Agent]
  agent.offer([...rows(3), providerRow('beta.example', 0, 2), ownRow(agent.url, 0, 2)])
  const settings = { statics: [{ id: 'a0', agent }], providersMs: MINUTE_MS }
  world.providers.behave(PROVIDER, 'gone')
  await world.start(settings)
  const decided = await until(world.page, (one) => total(one) === 2)
  t.equal(lacks(decided), '')
  await world.stop()

  world.providers.behave(PROVIDER, 'serves')
  await world.start({ ...settings, limits: { providerBytes: 100 } })
  const crowded = await until(world.page, (one) => /more room than there is/.test(lacks(one)))
  t.match(lacks(crowded), /alpha\.example/)
  t.match(lacks(crowded), /beta\.example/)
  t.equal(total(crowded), 1)
  world.apply({ ...settings, limits: { providerDomainsPerUpstream: 1 } })
  const beyond = await until(world.page, (one) => /name too many: (alpha|beta)\.example/.test(lacks(one)))
  t.match(lacks(beyond), named)
})

test('a file that proves nothing any more, as it could not be read for a day, is named', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { agents: 1, clock })
  const [agent] = world.agents as [Agent]
  agent.offer(rows(3))
  const pace = { staleAfterMs: 9 * DAY_MS, dropAfterMs: 9 * DAY_MS }
  await world.start({ statics: [{ id: 'a0', agent }], providersMs: MINUTE_MS, pace })
  await until(world.page, (one) => total(one) === 3 && lacks(one) === '')
  world.providers.behave(PROVIDER, 'fails')
  const asked = world.providers.asked(PROVIDER)
  await until(
    async () => shift(MINUTE_MS / 4),
    () => world.providers.asked(PROVIDER) >= asked + 2,
  )
  t.equal(lacks(await world.page()), '', 'the last good file counts')
  shift(DAY_MS)
  const ended = await until(world.page, (one) => total(one) === 0)
  t.match(lacks(ended), named)
})
