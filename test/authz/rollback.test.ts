import { test } from 'tap'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import { AGENT, createWorld, DAY, granting, HOUR, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`
const dated = (ids: string[], last_updated?: string) => ({
  body: granting(ids, last_updated ? { last_updated } : {}),
})
type World = Awaited<ReturnType<typeof createWorld>>

function outcome(world: World, signal = 's1'): string {
  const state = world.providers().state('p.example') ?? { domain: 'p.example' }
  const verdict = decide(compileProvider(state), signal, AGENT, world.clock.now())
  return 'reason' in verdict ? verdict.reason : verdict.outcome
}

async function serve(world: World, page: Parameters<World['web']['page']>[1]): Promise<void> {
  world.web.page(P, page)
  world.providers().want(named(['p.example']))
  await world.providers().refresh('p.example')
}

test('an older file than the one held is refused, and raised', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await serve(world, dated(['s2'], '2026-02-02T00:00:00Z'))
  await serve(world, dated(['s1'], '2026-02-01T00:00:00Z'))
  t.equal(outcome(world), 'agent_not_listed_for_signal')
  t.equal(outcome(world, 's2'), 'authorized', 'the newer one stays in force')
  t.equal(world.providers().state('p.example')?.problem?.reason, 'rollback')
  t.match(world.logged, [{}, { level: 'warn', fields: { reason: 'rollback' } }])
  await serve(world, dated(['s1'], '2026-02-02T00:00:00Z'))
  t.equal(outcome(world), 'authorized', 'the same date is not older')
})

test('no detour lets the older file in: not a 404, not a restart, not both', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await serve(world, dated(['s2'], '2026-02-02T00:00:00Z'))
  await serve(world, { status: 404 })
  await world.restart()
  world.jump(6 * DAY)
  await serve(world, dated(['s1'], '2026-02-01T00:00:00Z'))
  t.equal(outcome(world), 'rollback')
  world.jump(DAY)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized', 'what could no longer be in force is forgotten')
})

test('a file without a date does not reset the memory of the last one', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await serve(world, dated(['s2'], '2026-02-02T00:00:00Z'))
  await serve(world, dated(['s2']))
  await serve(world, dated(['s1'], '2026-02-01T00:00:00Z'))
  t.equal(outcome(world), 'agent_not_listed_for_signal')
})

test('a file dated in the future does not lock out its correction', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await serve(world, dated(['s1'], '2036-01-01T00:00:00Z'))
  t.equal(outcome(world), 'authorized')
  world.jump(2 * HOUR)
  await serve(world, dated(['s2'], '2026-03-01T01:00:00Z'))
  t.equal(
    outcome(world),
    'agent_not_listed_for_signal',
    'the correction is newer than the fetch of the mistake',
  )
})

test('nor does it when the mistake was confirmed meanwhile', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const headers = { etag: '"mistake"' }
  for (const conditional of [false, true]) {
    await serve(world, { ...dated(['s1'], '2036-01-01T00:00:00Z'), ...(conditional && { headers }) })
    const writtenAt = world.clock.now() + HOUR
    for (let look = 0; look < 3; look += 1) {
      world.jump(HOUR)
      await world.providers().refresh('p.example')
    }
    t.equal(outcome(world), 'authorized')
    await serve(world, dated(['s2'], new Date(writtenAt).toISOString()))
    t.equal(outcome(world), 'agent_not_listed_for_signal', 'it was written after the mistake was first seen')
    const before = new Date(writtenAt - 2 * HOUR).toISOString()
    await serve(world, dated(['s1'], before))
    t.equal(outcome(world), 'agent_not_listed_for_signal', 'what was written before is refused')
  }
})

test('a date that is none counts as no date', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await serve(world, dated(['s2'], 'yesterday'))
  await serve(world, dated(['s1'], '2001-01-01T00:00:00Z'))
  t.equal(outcome(world), 'authorized')
})
