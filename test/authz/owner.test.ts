import { readdir } from 'node:fs/promises'
import { test } from 'tap'
import { createWorld, DAY, granting, HOUR, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`

/** Lets what fell due finish: polls real input and output, bounded, without sleeping on a guess. */
async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !condition(); ) {
    if (Date.now() > end) throw new Error('it did not happen')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('each wanted provider is fetched once, however often it is named', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: granting(['s1']) })
  providers.want(named(['p.example', 'P.EXAMPLE', 'p.example.']))
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(world.web.asked(P), 1)
  t.equal(providers.states().length, 1)
})

test('it is looked at again within the refresh time, and at least daily', async (t) => {
  for (const refreshMs of [HOUR, 30 * DAY]) {
    const world = await createWorld({ refreshMs })
    t.teardown(world.close)
    world.web.page(P, { body: granting(['s1']) })
    world.providers().want(named(['p.example']))
    await world.providers().settled()
    world.jump(Math.min(refreshMs, DAY) * 0.9 - 1)
    world.runDue()
    await world.providers().settled()
    t.equal(world.web.asked(P), 1, 'not too early')
    world.jump(Math.min(refreshMs, DAY) * 0.1 + 1)
    world.runDue()
    await until(() => world.web.asked(P) === 2)
    await world.providers().settled()
  }
})

test('a failing provider is tried again within a minute, a missing file within ten', async (t) => {
  const world = await createWorld({ refreshMs: DAY })
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: granting(['s1']) })
  providers.want(named(['p.example', 'q.example']))
  await providers.settled()
  world.web.page(P, { status: 503 })
  for (const wait of [0, 10_000, 60_000, 5 * HOUR]) {
    world.jump(wait)
    await providers.refresh('p.example')
    const next = providers.state('p.example')?.nextAttemptAt ?? Number.POSITIVE_INFINITY
    t.ok(next > world.clock.now() && next <= world.clock.now() + 60_000)
  }
  t.equal(providers.state('q.example')?.nextAttemptAt, world.clock.now() - 5 * HOUR - 70_000 + 600_000)
})

test('listeners hear what moves verdicts, and nothing else', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  const heard: string[] = []
  const stop = providers.onChange(({ domain }) => heard.push(domain))
  const changes = async (page: Parameters<typeof world.web.page>[1]) => {
    heard.length = 0
    world.web.page(P, page)
    world.jump(HOUR)
    await providers.refresh('p.example')
    return heard.length
  }
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(await changes({ body: granting(['s1']) }), 1, 'a first file')
  t.equal(await changes({ body: granting(['s1']) }), 0, 'the same again')
  t.equal(await changes({ body: granting(['s1', 's2']) }), 1, 'another file')
  t.equal(await changes({ status: 503 }), 1, 'a failure starts the stale cap')
  t.equal(await changes({ status: 500 }), 0, 'and goes on')
  t.equal(await changes({ body: granting(['s1', 's2']) }), 1, 'it recovers')
  t.equal(
    await changes({ body: { authoritative_location: 'https://cdn.example/x' } }),
    1,
    'a pointer on hold',
  )
  t.equal(await changes({ status: 404 }), 1, 'the file is gone')
  stop()
  t.equal(await changes({ body: granting(['s1']) }), 0)
})

test('a provider that nobody names any more is let go of', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  providers.want(named(['p.example', 'q.example']))
  await providers.settled()
  providers.want(named(['q.example']))
  t.same(
    providers.states().map(({ domain }) => domain),
    ['q.example'],
  )
  t.equal(await providers.refresh('p.example'), undefined)
})

test('after a restart the held file is in force before any request', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  world.web.page(P, { body: granting(['s1']), headers: { etag: '"v1"' } })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  const before = world.providers().state('p.example')
  const providers = await world.restart()
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(world.web.asked(P), 1)
  const after = providers.state('p.example')
  t.equal(after?.document?.digest, before?.document?.digest)
  t.equal(after?.expiresAt, before?.expiresAt)
  t.ok(after?.document?.bytes.buffer instanceof SharedArrayBuffer, 'a worker reads it without a copy')
})

test('a clock that was set back does not stretch a cap', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  world.web.page(P, { body: granting(['s1']) })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  world.jump(-3 * DAY)
  const providers = await world.restart()
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(providers.state('p.example')?.expiresAt, world.clock.now() + 7 * DAY)
})

test('nor does it stretch a hold, or date what is told into the future', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const pointTo = (to: string) => world.web.page(P, { body: { authoritative_location: to } })
  pointTo('https://cdn.example/a')
  world.web.page('cdn.example/a', { body: granting(['s1']) })
  world.web.page('cdn2.example/b', { body: granting(['s1']) })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  pointTo('https://cdn2.example/b')
  await world.providers().refresh('p.example')
  world.web.page(P, { status: 500 })
  await world.providers().refresh('p.example')
  t.match(world.providers().state('p.example'), { heldPointer: {}, problem: {} })
  world.jump(-3 * DAY)
  const providers = await world.restart()
  const now = world.clock.now()
  providers.want(named(['p.example']))
  await providers.settled()
  const { heldPointer, problem, document } = providers.state('p.example') ?? {}
  t.equal(heldPointer?.adoptAt, now + DAY)
  t.equal(problem?.since, now)
  t.equal(document?.fetchedAt, now)
  world.web.page('cdn.example/a', { status: 404 })
  world.jump(7 * DAY)
  pointTo('https://other.example/c')
  world.web.page('other.example/c', { body: granting(['s1']) })
  await providers.refresh('p.example')
  t.equal(world.web.asked('other.example/c'), 1, 'what was adopted holds no pointer for longer than its cap')
})

test('what holds nothing any more is swept from the disk', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: granting(['s1']) })
  providers.want(named(['p.example']))
  await providers.settled()
  world.web.page(P, { body: granting(['s2']) })
  await providers.refresh('p.example')
  t.equal((await readdir(world.folder)).length, 3, 'a record, its document and the one before')
  const left = async (files: number, stepMs: number) => {
    for (const end = Date.now() + 60_000; (await readdir(world.folder)).length !== files; ) {
      if (Date.now() > end) throw new Error(`expected ${files} files`)
      world.jump(stepMs)
      world.runDue()
    }
  }
  await left(2, 301_000)
  providers.want(named([]))
  await left(0, DAY)
  t.pass('nothing is left')
})

test('a disk that fails is told and stops nothing', async (t) => {
  const fail = () => Promise.reject(new Error('disk full'))
  const world = await createWorld({ blobs: { read: fail, write: fail, remove: fail, list: fail } })
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: granting(['s1']) })
  providers.want(named(['p.example']))
  await providers.settled()
  t.ok(providers.state('p.example')?.document, 'the file is in use all the same')
  t.match(world.logged, [{ message: /read/ }, { message: /in use/ }, { message: /saved/ }])
})

test('closing ends what is under way', async (t) => {
  const world = await createWorld()
  world.web.page(P, () => {})
  world.providers().want(named(['p.example']))
  await until(() => world.web.asked(P) === 1)
  await world.close()
  t.pass('closed while a server hangs')
})
