/**
 * The first feed of more rows than one builder is given: two threads build it. Whatever happens meanwhile, it is the feed that
 * one builder makes of the same rows in small steps, to the byte.
 */
import { test } from 'tap'
import { AGENTS, OWN, SIGNALS, seen, startLarge, walked } from './support/large-world.js'
import { total, until } from './support/scripted.js'
import { watchThreads } from './support/threads.js'

const LONGEST_MS = 280_000

const threads = watchThreads()

test('a large first feed is the feed that grew in small steps, whatever meets its builders', async (t) => {
  const { world, ask, settings, offer, fresh } = await startLarge(t)
  const reached = (own: number) =>
    until(world.page, (answer) => total(answer) === SIGNALS - AGENTS * (OWN - own), LONGEST_MS)
  const whole = () => reached(OWN)

  offer(100)
  await world.start(settings)
  for (const own of [100, OWN / 3, OWN]) {
    offer(own)
    await reached(own)
  }
  t.equal(threads.started('build-worker'), 1, 'one builder')
  const [expected, rows] = [await seen(ask), await walked(ask)]
  t.match(rows, new RegExp(`^${SIGNALS} `))

  const equal = async (what: string) => {
    await whole()
    t.same(await seen(ask), expected, what)
    await fresh()
  }

  await fresh()
  let before = threads.started('build-worker')
  await world.start(settings)
  t.equal(threads.started('build-worker'), before + 2, 'two builders')
  t.equal(await walked(ask), rows)
  await equal('built by two')

  before = threads.started('build-worker')
  const second = threads.holdNext('build-worker', 1)
  const dying = world.start(settings)
  await second
  await threads.end('build-worker', before + 1)
  await dying
  t.equal(threads.started('build-worker'), before + 2, 'and the first built alone')
  await equal('built while the second builder died')

  const first = threads.holdNext('build-worker')
  const died = world.start(settings)
  await first
  await threads.end('build-worker')
  await died
  await equal('built again after the first builder died')

  const held = threads.holdNext('build-worker', 1)
  const reloaded = world.start(settings)
  const deliver = await held
  await world.apply({ ...settings, pace: { ...settings.pace, timeoutMs: 50_000 } })
  deliver()
  await reloaded
  await equal('built while the configuration changed')
})
