import { test } from 'tap'
import { compileProvider, decide, nextBoundary } from '../../src/authz/rules/verdict.js'
import { AGENT, createWorld, DAY, granting, HOUR, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`
type World = Awaited<ReturnType<typeof createWorld>>

function outcome(world: World): string {
  const state = world.providers().state('p.example') ?? { domain: 'p.example' }
  const verdict = decide(compileProvider(state), 's1', AGENT, world.clock.now())
  return 'reason' in verdict ? verdict.reason : verdict.outcome
}

async function worldWithFile() {
  const world = await createWorld()
  world.web.page(P, { body: granting(['s1']), headers: { etag: '"v1"' } })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  return world
}

test('a good file outlives 24 hours of failures and not a moment more', async (t) => {
  const world = await worldWithFile()
  t.teardown(world.close)
  world.web.page(P, { status: 503 })
  world.jump(10 * HOUR)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
  world.jump(23 * HOUR)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized', 'the cap runs from the first failure')
  world.jump(HOUR)
  t.equal(outcome(world), 'expired', 'without any further refresh')
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'expired')
})

test('failures of other kinds do not restart the 24 hours, and a restart does not either', async (t) => {
  const world = await worldWithFile()
  t.teardown(world.close)
  world.web.page(P, { status: 500 })
  await world.providers().refresh('p.example')
  world.jump(12 * HOUR)
  world.web.page(P, (request) => request.destroy())
  const providers = await world.restart()
  providers.want(named(['p.example']))
  await providers.settled()
  await providers.refresh('p.example')
  t.equal(outcome(world), 'authorized')
  world.jump(12 * HOUR)
  t.equal(outcome(world), 'expired')
})

test('a server that recovers revives what it confirms', async (t) => {
  const world = await worldWithFile()
  t.teardown(world.close)
  world.web.page(P, { status: 503 })
  await world.providers().refresh('p.example')
  world.jump(30 * HOUR)
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'expired')
  world.web.page(P, { body: granting(['s1']), headers: { etag: '"v1"' } })
  await world.providers().refresh('p.example')
  t.equal(outcome(world), 'authorized')
  t.equal(world.web.requests.at(-1)?.headers['if-none-match'], '"v1"')
})

test('unconfirmed for 7 days, a file proves nothing and is let go of', async (t) => {
  const world = await worldWithFile()
  t.teardown(world.close)
  world.jump(7 * DAY - 1)
  t.equal(outcome(world), 'authorized')
  world.jump(1)
  t.equal(outcome(world), 'expired')
  world.web.page(P, { status: 503 })
  await world.providers().refresh('p.example')
  t.equal(world.providers().state('p.example')?.document, undefined)
  t.equal(outcome(world), 'unreachable')
})

test('404 and 410 end the old file at once: the provider says that there is none', async (t) => {
  for (const status of [404, 410]) {
    const world = await worldWithFile()
    t.teardown(world.close)
    world.web.page(P, { status })
    await world.providers().refresh('p.example')
    t.equal(outcome(world), 'no_file')
  }
})

test('a 403, an HTML page and whatever else is no file are faults: the old file stays for 24 hours', async (t) => {
  const answers = [
    { status: 403 },
    { status: 302, headers: { location: 'https://elsewhere.example/' } },
    { body: '<html>' },
    { body: {} },
    { body: ' '.repeat(5 * 1024 * 1024 + 1) },
    { body: { authoritative_location: 'http://x.example/' } },
  ]
  for (const [index, answer] of answers.entries()) {
    const world = await worldWithFile()
    t.teardown(world.close)
    world.web.page(P, answer)
    await world.providers().refresh('p.example')
    t.equal(outcome(world), 'authorized', `answer ${index}`)
    world.jump(DAY)
    t.equal(outcome(world), 'expired', `answer ${index}, a day later`)
  }
})

test('a file that is not the file is asked for again within ten minutes, a server that is down within one', async (t) => {
  for (const [answer, wait] of [
    [{ body: '<html>' }, 10],
    [{ status: 503 }, 1],
  ] as const) {
    const world = await worldWithFile()
    t.teardown(world.close)
    world.web.page(P, answer)
    await world.providers().refresh('p.example')
    world.jump(12 * HOUR)
    await world.providers().refresh('p.example')
    t.equal(world.providers().state('p.example')?.nextAttemptAt, world.clock.now() + wait * 60_000)
  }
})

test('the next boundary is the next window edge or the cap', async (t) => {
  const from = '2026-03-02T00:00:00Z'
  const until = '2026-03-03T00:00:00Z'
  const entry = { url: AGENT, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ['s1'] }
  const world = await createWorld()
  t.teardown(world.close)
  world.web.page(P, {
    body: granting([], { authorized_agents: [{ ...entry, effective_from: from, effective_until: until }] }),
  })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  const state = world.providers().state('p.example')
  const compiled = compileProvider(state ?? { domain: 'p.example' })
  const at = (time: string) => nextBoundary(compiled, Date.parse(time))
  t.equal(at('2026-03-01T00:00:00Z'), Date.parse(from))
  t.equal(at(from), Date.parse(until))
  t.equal(at(until), state?.expiresAt)
  t.equal(at('2026-04-01T00:00:00Z'), undefined)
})
