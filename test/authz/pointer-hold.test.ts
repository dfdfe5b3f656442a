import { test } from 'tap'
import type { ProvidersOptions } from '../../src/authz/provider/providers.js'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import { until } from '../support/until.js'
import { AGENT, createWorld, DAY, granting, HOUR, named, START, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`
const pointer = (to: string) => ({ body: { authoritative_location: to } })
type World = Awaited<ReturnType<typeof createWorld>>

function outcome(world: World, signal = 's1'): string {
  const state = world.providers().state('p.example') ?? { domain: 'p.example' }
  const verdict = decide(compileProvider(state), signal, AGENT, world.clock.now())
  return 'reason' in verdict ? verdict.reason : verdict.outcome
}

/** A provider whose pointer leads to a file that grants s2; another place has one that grants s1. */
async function pointedWorld(settings: Partial<ProvidersOptions> = {}) {
  const world = await createWorld(settings)
  world.web.page(P, pointer('https://cdn.example/a'))
  world.web.page('cdn.example/a', { body: granting(['s2']) })
  world.web.page('cdn2.example/b', { body: granting(['s1']) })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  return world
}

/** A provider whose file, which grants s2, is at its well-known url; another place has one that grants s1. */
async function inlineWorld() {
  const world = await createWorld()
  world.web.page(P, { body: granting(['s2']) })
  world.web.page('cdn2.example/b', { body: granting(['s1']) })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  return world
}

test('a changed pointer is followed after 24 hours, and the old file stays until then', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  const state = await world.providers().refresh('p.example')
  t.match(state?.heldPointer, { url: 'https://cdn2.example/b', adoptAt: world.clock.now() + DAY })
  t.match(world.logged.at(-1), { level: 'warn', message: /held/ })
  t.equal(world.web.asked('cdn2.example/b'), 0, 'its target is not even asked')
  world.jump(DAY - 1)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'agent_not_listed_for_signal')
  t.equal(outcome(world, 's2'), 'authorized')
  world.jump(1)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
  t.equal(world.providers().state('p.example')?.heldPointer, undefined)
})

test('a restart neither shortens nor restarts the hold', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  world.jump(12 * HOUR)
  const providers = await world.restart()
  providers.want(named(['p.example']))
  await providers.refresh('p.example')
  t.equal(outcome(world), 'agent_not_listed_for_signal')
  world.jump(12 * HOUR)
  await providers.refresh('p.example')
  t.equal(outcome(world), 'authorized')
})

test('whatever is not the same pointer in between starts the hold anew', async (t) => {
  const between = [
    pointer('https://cdn.example/a'),
    pointer('https://other.example/c'),
    { status: 404 },
    { body: granting([]) },
  ]
  for (const [index, page] of between.entries()) {
    const world = await pointedWorld()
    t.teardown(world.close)
    world.web.page(P, pointer('https://cdn2.example/b'))
    await world.providers().refresh('p.example')
    world.jump(20 * HOUR)
    world.web.page(P, page)
    await world.providers().refresh('p.example')
    world.web.page(P, pointer('https://cdn2.example/b'))
    world.jump(HOUR)
    await world.providers().refresh('p.example')
    world.jump(20 * HOUR)
    await world.providers().refresh('p.example')
    t.not(outcome(world), 'authorized', `case ${index}`)
  }
})

test('a server that is down for a while does not', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  world.web.page(P, { status: 503 })
  world.jump(12 * HOUR)
  await world.providers().refresh('p.example')
  world.web.page(P, pointer('https://cdn2.example/b'))
  world.jump(12 * HOUR)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
})

test('a pointer that follows an outage ends it: the file of before stays for the whole hold', async (t) => {
  const world = await inlineWorld()
  t.teardown(world.close)
  world.web.page(P, { status: 503 })
  await world.providers().refresh('p.example')
  world.jump(20 * HOUR)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  world.jump(DAY - 1)
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'authorized')
  world.web.page(P, { status: 503 })
  await world.providers().refresh('p.example')
  world.jump(DAY - 1)
  t.equal(outcome(world, 's2'), 'authorized', 'what fails then is another outage')
  world.jump(1)
  t.equal(outcome(world, 's2'), 'expired')
})

test('a file that moves, and is gone from its old place at once, counts until its new place does', async (t) => {
  const world = await pointedWorld({ refreshMs: DAY })
  t.teardown(world.close)
  world.web.page(P, pointer('https://other.example/moved'))
  world.web.gone('cdn.example/a')
  world.web.page('other.example/moved', { body: granting(['s2']) })
  await world.providers().refresh('p.example')
  const { nextAttemptAt = 0 } = world.providers().state('p.example') ?? {}
  for (let due = nextAttemptAt; due < START + DAY; ) {
    world.jump(due - world.clock.now())
    t.equal(outcome(world, 's2'), 'authorized')
    await world.providers().refresh('p.example')
    due = world.providers().state('p.example')?.nextAttemptAt ?? 0
  }
  t.equal(
    world.providers().state('p.example')?.nextAttemptAt,
    START + DAY,
    'it is looked at when the hold ends',
  )
  world.jump(START + DAY - world.clock.now())
  t.equal(outcome(world, 's2'), 'authorized')
  await world.providers().refresh('p.example')
  t.equal(world.providers().state('p.example')?.document?.url, 'https://other.example/moved')
})

test('the operator can confirm a changed pointer', async (t) => {
  const confirmed = new Set<string>()
  const world = await pointedWorld({ confirmPointer: (domain, url) => confirmed.has(`${domain} ${url}`) })
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'agent_not_listed_for_signal')
  confirmed.add('p.example https://cdn2.example/b')
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
})

/** What is due now is done; nobody asks for it. */
const followed = (world: World) =>
  until(
    () => {
      world.jump(100)
      world.runDue()
      return outcome(world)
    },
    (told) => told === 'authorized',
  )

test('a hold ends when the configuration confirms its pointer, without anybody asking', async (t) => {
  const confirmed = new Set<string>()
  const world = await pointedWorld({
    refreshMs: DAY,
    confirmPointer: (domain, url) => confirmed.has(`${domain} ${url}`),
  })
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  const { nextAttemptAt } = world.providers().state('p.example') ?? {}
  world.providers().endConfirmedHolds()
  t.equal(world.providers().state('p.example')?.nextAttemptAt, nextAttemptAt, 'none is confirmed yet')
  confirmed.add('p.example https://cdn2.example/b')
  world.providers().endConfirmedHolds()
  await followed(world)
  t.equal(world.providers().state('p.example')?.heldPointer, undefined)
  t.ok(world.clock.now() < START + HOUR)
  const asked = world.web.asked(P)
  world.jump(HOUR)
  world.runDue()
  await world.providers().settled()
  t.equal(world.web.asked(P), asked, 'then it is looked at as regularly as others')
})

test('so does one that is confirmed while it is being put on hold', async (t) => {
  let isConfirmed = false
  const world = await pointedWorld({ refreshMs: DAY, confirmPointer: () => isConfirmed })
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  let answer = () => {}
  world.web.page('cdn.example/a', (_, response) => {
    answer = () => response.end(JSON.stringify(granting(['s2'])))
  })
  const before = world.web.asked('cdn.example/a')
  const refreshed = world.providers().refresh('p.example')
  await until(
    () => world.web.asked('cdn.example/a'),
    (asked) => asked > before,
  )
  isConfirmed = true
  world.providers().endConfirmedHolds()
  answer()
  await refreshed
  await followed(world)
  t.equal(world.providers().state('p.example')?.heldPointer, undefined)
})

test('so does one of an earlier run that is confirmed before the next', async (t) => {
  let isConfirmed = false
  const world = await pointedWorld({ refreshMs: DAY, confirmPointer: () => isConfirmed })
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  isConfirmed = true
  const providers = await world.restart()
  providers.want(named(['p.example']))
  await followed(world)
  t.equal(providers.state('p.example')?.heldPointer, undefined)
})

test('a confirmed pointer that leads to nothing is not asked for without a pause', async (t) => {
  let isConfirmed = false
  const world = await pointedWorld({ refreshMs: DAY, confirmPointer: () => isConfirmed })
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  for (const status of [404, 503]) {
    world.web.page('cdn2.example/b', { status })
    isConfirmed = true
    await world.providers().refresh('p.example')
    const { nextAttemptAt = 0, problem } = world.providers().state('p.example') ?? {}
    t.ok(problem)
    t.ok(nextAttemptAt >= world.clock.now() + 1_000, `${status}`)
  }
})

test('during the hold the old file is still looked at: a revocation in it counts', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  world.web.page('cdn.example/a', { body: granting([]) })
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'agent_not_listed')
})

test('during the hold the old file may be gone from its place', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.gone('cdn.example/a')
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  world.jump(23 * HOUR)
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'authorized')
})

test('a pointer that replaces a file at the well-known url is held too', async (t) => {
  const world = await inlineWorld()
  t.teardown(world.close)
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'authorized')
  t.equal(outcome(world), 'agent_not_listed_for_signal')
  world.jump(DAY)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
})

test('a file at the well-known url ends a delegation at once', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, { body: granting([]) })
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'agent_not_listed')
})

test('a detour over a missing file does not shorten the hold', async (t) => {
  const world = await pointedWorld()
  t.teardown(world.close)
  world.web.page(P, { status: 404 })
  await world.providers().refresh('p.example')
  t.equal(outcome(world, 's2'), 'no_file')
  world.web.page(P, pointer('https://cdn2.example/b'))
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'held_pointer')
  world.jump(DAY)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
})
