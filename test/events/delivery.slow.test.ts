import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createAnnouncer } from '../../src/events/announcer.js'
import { createPost } from '../../src/events/letter.js'
import { createStandings, type Eyes } from '../../src/events/standings.js'
import { deliveryOf, subscriptionJob } from '../../src/events/stream.js'
import { createWebhook } from '../../src/events/webhook.js'
import type { Feed } from '../../src/feed/feed.js'
import { type Clock, systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import type { Send } from '../../src/net/send.js'
import type { ThreadTime } from '../../src/process/spare-time.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import type { Jobs } from '../../src/store/jobs.js'
import type { Store } from '../../src/store/store.js'
import { emptyFeed, publish } from '../feed/feed-of.js'
import { listing, sliceOf } from '../feed/world.js'
import { embedded, NO_POSTGRES, type Storage, shared } from '../store/support/storages.js'
import { createManualClock } from '../support/upstream-clock.js'
import { until } from '../support/upstream-world.js'
import { EVERY_EVENT, type Subscriber, startSubscriber } from './support/subscriber.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const BULK = 'wholesale_feed.bulk_change'
const signer = createSigner({ keyId: 'k', privateKey: generateKeyPairSync('ed25519').privateKey }, WEBHOOKS)
const eyes: Eyes = { open: { caller: 'buyer', visibility: 'full', grants: [] }, account: 'acc' }

function onEmbeddedStorage(rule: string, prove: (t: Test, storage: Storage) => Promise<void>): void {
  test(rule, async (t) => prove(t, await embedded(t)))
}

/** A feed that a test publishes, processes that tell it, and time that the test moves. */
async function stage(t: Test, storage: Storage, real?: Clock, isBusy = false) {
  const manual = createManualClock(storage.clock.now)
  /** A thread that is never idle, and whose time passes by its own rests alone, however fast the machine is. */
  const thread = { active: 0, rested: 0 }
  const busy: ThreadTime = {
    spent() {
      thread.active += 1_000
      return { idle: 0, active: thread.active }
    },
    after(ms, task) {
      setImmediate(() => {
        thread.rested += ms
        task()
      })
    },
  }
  const clock = real ?? manual.clock
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(() => egress.close())
  const feed = emptyFeed()
  let signals = 2
  const publishNext = () =>
    publish(feed, [
      sliceOf(
        'north',
        Array.from({ length: signals++ }, (_, at) => listing(`s${at}`)),
      ),
    ])
  publishNext()
  const outcomes: string[] = []
  /** What the configuration says of the one caller and its account now. */
  const world: { eyes: Eyes | undefined; isOpen: boolean } = { eyes, isOpen: true }

  /** Time is the test's: a machine that is busy for ten seconds must not look like a receiver that hangs. */
  const patience = new Set<number>()
  /** How long a busy thread had rested when each of them was sent, ms. */
  const restedAt: number[] = []
  const send: Send = (request) => {
    patience.add(request.timeoutMs)
    restedAt.push(thread.rested)
    return egress.send({ ...request, timeoutMs: 120_000 })
  }

  /** `through`: how it reaches its jobs. `own`: the clock that it names events by. */
  async function process(through = (jobs: Jobs) => jobs, own = clock) {
    const store = await storage.open({ now: clock.now })
    const standings = createStandings({ feed, clock: own })
    const announcer = createAnnouncer({
      ...{
        store: { ...store, jobs: through(store.jobs) },
        standings,
        clock,
        random: () => 0.5,
        newId: randomUUID,
      },
      webhook: createWebhook({ post: createPost({ send, signer }), now: clock.now }),
      eyesOf: () => world.eyes,
      isOpen: async () => world.isOpen,
      onProblem: (problem) => t.comment(problem),
      onOutcome: (outcome) => outcomes.push(outcome),
      ...(isBusy && { threadTime: busy }),
    })
    t.teardown(() => announcer.close())
    announcer.start()
    return { store, standings, announcer }
  }

  async function subscribe(store: Store, subscriberId: string, url: string): Promise<string> {
    const job = `sub_${subscriberId}`
    await store.subscriptions.add({
      ...{ caller: 'buyer', accountId: 'acc', subscriberId, job },
      config: { url, event_types: EVERY_EVENT },
    })
    const versions = await createStandings({ feed, clock }).current(eyes)
    await store.jobs.add(subscriptionJob(job, 'buyer', { versions, hasMissed: false }))
    return job
  }

  async function receiver(): Promise<Subscriber> {
    const one = await startSubscriber()
    t.teardown(() => one.close())
    return one
  }

  /** Moves time on; what becomes due is done before it goes further. */
  async function pass(ms: number, { store, announcer }: Awaited<ReturnType<typeof process>>, step = ms) {
    for (let gone = 0; gone < ms; gone += step) {
      manual.advance(step)
      for (;;) {
        await announcer.round()
        const open = await store.db
          .selectFrom('jobs')
          .select('id')
          .where('kind', '=', 'feed_events')
          .where((eb) => eb.or([eb('owner', 'is not', null), eb('due', '<=', manual.clock.now())]))
          .execute()
        if (open.length === 0) break
        await wait(2)
      }
    }
  }

  return {
    ...{ publishNext, process, subscribe, receiver, pass, outcomes, feed, world, manual, patience },
    ...{ thread, restedAt },
  }
}

const versionOf = (feed: Feed) => feed.see({}, eyes.open, { mode: 'wholesale' })?.versions.feedVersion
const keysOf = ({ events }: Subscriber) => events.map(({ body }) => body.idempotency_key as string)
const typesOf = ({ events }: Subscriber) => events.map(({ body }) => body.notification_type as string)

onEmbeddedStorage('activation keys wait encrypted until they are sent', async (t, storage) => {
  const { process, subscribe, receiver, pass, feed, world } = await stage(t, storage)
  const platform = { type: 'platform' as const, platform: 'dv360' }
  world.eyes = { ...eyes, open: { ...eyes.open, grants: [platform] } }
  const one = await process()
  const busy = await receiver()
  busy.answerWith((_, response) => void response.writeHead(503).end())
  const job = await subscribe(one.store, 'busy', busy.url)
  await pass(1, one)
  const activation_key = { type: 'segment_id' as const, segment_id: 'a-key-of-the-buyer' }
  publish(feed, [
    sliceOf('north', [
      listing('s0', { deployments: [{ ...platform, is_live: true, activation_key }] }),
      listing('s1'),
    ]),
  ])
  one.announcer.published()
  await pass(1, one)
  t.match(busy.events.at(-1)?.raw, 'a-key-of-the-buyer')
  const { data } = await one.store.db
    .selectFrom('jobs')
    .select('data')
    .where('id', '=', job)
    .executeTakeFirstOrThrow()
  t.match(data, 'pending')
  t.notMatch(data, 'a-key-of-the-buyer')
})

onEmbeddedStorage('Retry-After counts with every status', async (t, storage) => {
  const { publishNext, process, subscribe, receiver, pass } = await stage(t, storage)
  const one = await process()
  const receivers = new Map<number, Subscriber>()
  for (const status of [307, 403, 404, 429, 503]) {
    const to = await receiver()
    to.answerWith((_, response) => void response.writeHead(status, { 'retry-after': '40' }).end())
    receivers.set(status, to)
    await subscribe(one.store, `s${status}`, to.url)
  }
  await pass(1, one)
  publishNext()
  one.announcer.published()
  await pass(1, one)
  await pass(30_000, one, 1_000)
  for (const [status, { events }] of receivers) t.equal(events.length, 1, `${status}: not before it`)
  await pass(15_000, one, 1_000)
  for (const [status, { events }] of receivers) t.equal(events.length, 2, `${status}: after it`)
})

onEmbeddedStorage(
  'what is not taken is sent again, the same under one key, and what comes later waits for it',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass } = await stage(t, storage)
    const one = await process()
    const [slow, well] = [await receiver(), await receiver()]
    let busy = true
    slow.answerWith((_, response) => void response.writeHead(busy ? 503 : 200, { 'retry-after': '40' }).end())
    await subscribe(one.store, 'slow', slow.url)
    await subscribe(one.store, 'well', well.url)
    await pass(1, one)
    publishNext()
    one.announcer.published()
    await pass(1, one)
    t.equal(slow.events.length, 1)
    t.equal(well.events.length, 1, 'nobody waits for another')
    publishNext()
    one.announcer.published()
    await pass(30_000, one, 1_000)
    t.equal(slow.events.length, 1, 'not before Retry-After')
    t.equal(well.events.length, 2)
    await pass(15_000, one, 1_000)
    t.equal(slow.events.length, 2)
    t.equal(new Set(keysOf(slow)).size, 1)
    t.equal(new Set(slow.events.map(({ raw }) => raw)).size, 1, 'the same bytes')
    const nonces = slow.events.map(
      ({ headers }) => /nonce="([^"]+)"/.exec(String(headers['signature-input']))?.[1],
    )
    t.equal(new Set(nonces).size, 2, 'each with a signature of its own')
    busy = false
    await pass(60_000, one, 1_000)
    t.same(typesOf(slow), ['signal.created', 'signal.created', 'signal.created', 'signal.created'])
    t.equal(new Set(keysOf(slow)).size, 2)
    const last = slow.events.map(({ body }) => body)
    t.equal(last.at(-1)?.previous_wholesale_feed_version, last[0]?.wholesale_feed_version, 'in order')
  },
)

onEmbeddedStorage(
  'a receiver has taken what it answers with 2xx, whatever stands behind that',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, outcomes } = await stage(t, storage)
    const one = await process()
    const [long, endless] = [await receiver(), await receiver()]
    long.answerWith((_, response) => void response.writeHead(200).end('x'.repeat(100_000)))
    endless.answerWith((_, response) => response.writeHead(200, { 'content-length': '10' }).flushHeaders())
    await subscribe(one.store, 'long', long.url)
    await subscribe(one.store, 'endless', endless.url)
    await pass(1, one)
    publishNext()
    one.announcer.published()
    await pass(5 * MINUTE, one, MINUTE)
    t.same(outcomes, ['delivered', 'delivered'])
    t.same(
      [long, endless].map(({ events }) => events.length),
      [1, 1],
    )
  },
)

onEmbeddedStorage(
  'who asked to be left alone for a while is, also by the next process; who is up to date is told at once',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, manual } = await stage(t, storage)
    const one = await process()
    const [busy, dated, well] = [await receiver(), await receiver(), await receiver()]
    busy.answerWith((_, response) => void response.writeHead(503, { 'retry-after': '1800' }).end())
    const until = new Date(manual.clock.now() + 1_800_000).toUTCString()
    dated.answerWith((_, response) => void response.writeHead(429, { 'retry-after': until }).end())
    for (const [id, { url }] of Object.entries({ busy, dated, well })) await subscribe(one.store, id, url)
    await pass(1, one)
    publishNext()
    one.announcer.published()
    await pass(1, one)
    const told = () => [busy, dated, well].map(({ events }) => events.length)
    t.same(told(), [1, 1, 1])
    await one.announcer.close()
    await one.store.close()
    publishNext()
    const two = await process()
    await pass(10 * MINUTE, two, MINUTE)
    t.same(told(), [1, 1, 2])
    for (const each of [busy, dated]) each.answerWith((_, response) => void response.writeHead(200).end())
    await pass(25 * MINUTE, two, MINUTE)
    t.same(told(), [3, 3, 2])
    for (const each of [busy, dated])
      t.equal(new Set(keysOf(each)).size, 2, 'the first one once more, and the next')
  },
)

/** Subscribers cannot be woken in a storage, until it is given back. */
function takeAway({ jobs }: { jobs: Pick<Jobs, 'hasten'> }) {
  const { hasten } = jobs
  let failures = 0
  jobs.hasten = async () => {
    failures += 1
    throw new StorageUnavailable('away')
  }
  return {
    failures: () => failures,
    giveBack: () => {
      jobs.hasten = hasten
    },
  }
}

onEmbeddedStorage(
  'a change that came while the storage could not be written is told soon, without another change',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, manual } = await stage(t, storage)
    const one = await process()
    const well = await receiver()
    await subscribe(one.store, 'well', well.url)
    await pass(1, one)
    const away = takeAway(one.store)
    publishNext()
    one.announcer.published()
    await until('it has failed', () => away.failures() === 1)
    away.giveBack()
    await nextTurn()
    manual.advance(5_000)
    await until('it is told', () => well.events.length === 1)
  },
)

onEmbeddedStorage(
  'a storage that stays away while much is published is looked at every few seconds, no more',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, manual } = await stage(t, storage)
    const one = await process()
    const well = await receiver()
    await subscribe(one.store, 'well', well.url)
    await pass(1, one)
    const { failures } = takeAway(one.store)
    for (let published = 1; published <= 8; published += 1) {
      publishNext()
      one.announcer.published()
      await until('it has failed', () => failures() === published)
      await nextTurn()
      manual.advance(100)
    }
    for (let gone = 0; gone < 10_000; gone += 100) {
      manual.advance(100)
      await one.store.subscriptions.jobs() // what began to look before has an answer before
      await nextTurn()
    }
    t.ok(failures() <= 8 + 2, `${failures()} looks`)
  },
)

onEmbeddedStorage(
  'a subscriber whose last write was done without an answer is told of the next change',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass } = await stage(t, storage)
    let isLost = false
    const one = await process((jobs) => ({
      ...jobs,
      async changeAll(changes) {
        const changed = await jobs.changeAll(changes)
        if (isLost) throw new StorageUnavailable('no answer')
        return changed
      },
    }))
    const well = await receiver()
    await subscribe(one.store, 'well', well.url)
    await pass(1, one)
    isLost = true
    await one.store.jobs.hasten(['sub_well'])
    await pass(1, one)
    isLost = false
    publishNext()
    one.announcer.published()
    await pass(MINUTE, one, 1_000)
    t.equal(well.events.length, 1)
  },
)

onEmbeddedStorage(
  'a write that fails once delays a subscriber by a second, however often it was told before',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass } = await stage(t, storage)
    let failures = 0
    const one = await process((jobs) => ({
      ...jobs,
      async changeAll(changes) {
        if (failures > 0) {
          failures -= 1
          throw new Error('once')
        }
        return await jobs.changeAll(changes)
      },
    }))
    const well = await receiver()
    await subscribe(one.store, 'well', well.url)
    await pass(1, one)
    for (let told = 1; told <= 12; told += 1) {
      publishNext()
      one.announcer.published()
      await pass(1, one)
    }
    t.equal(well.events.length, 12)
    failures = 1
    publishNext()
    one.announcer.published()
    await pass(1_000, one, 500)
    t.equal(well.events.length, 13)
  },
)

onEmbeddedStorage('many are told a few at a time while the thread has much to do', async (t, storage) => {
  const { publishNext, process, subscribe, receiver, thread, restedAt } = await stage(
    t,
    storage,
    undefined,
    true,
  )
  const one = await process()
  const all = await receiver()
  for (let at = 0; at < 24; at += 1) await subscribe(one.store, `s${at}`, `${all.url}${at}`)
  one.announcer.wake()
  await until('all are known', () => one.announcer.waiting() === 24)
  const before = thread.rested
  publishNext()
  one.announcer.published()
  await until('all are told', () => all.events.length === 24)
  /** One of eight comes after a rest of 6 ms at least, and each other one a millisecond after another. */
  const leastRest = (order: number) => order + 1 + 5 * Math.ceil((order + 1) / 8)
  const early = restedAt.flatMap((rested, order) => {
    return rested - before < leastRest(order) ? [{ order, rested: rested - before }] : []
  })
  t.same(early, [])
})

onEmbeddedStorage('one that hangs keeps nobody else waiting', async (t, storage) => {
  const { publishNext, process, subscribe, receiver, pass, patience } = await stage(t, storage)
  const one = await process()
  const [hung, well] = [await receiver(), await receiver()]
  const held: { destroy(): void }[] = []
  hung.answerWith((_, response) => void held.push(response))
  await subscribe(one.store, 'hung', hung.url)
  await subscribe(one.store, 'well', well.url)
  await pass(1, one)
  for (let told = 1; told <= 3; told += 1) {
    publishNext()
    one.announcer.published()
    await until('the other one is told', () => well.events.length === told && hung.events.length === 1)
    await until('and waits for more', () => one.announcer.waiting() === 1)
  }
  t.same([...patience], [10_000], 'nobody is waited for longer')
  hung.answerWith((_, response) => void response.writeHead(200).end())
  held[0]?.destroy()
  await pass(10_000, one, 1_000)
  t.equal(new Set(keysOf(hung)).size, 3)
  t.same(typesOf(hung), Array(4).fill('signal.created'), 'the first twice, and what came meanwhile')
})

onEmbeddedStorage(
  'after an hour of 503 one bulk change stands for all that was missed; after a day nothing is sent any more',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, outcomes, feed } = await stage(t, storage)
    const one = await process()
    const [back, dead] = [await receiver(), await receiver()]
    let isBack = false
    back.answerWith((_, response) => void response.writeHead(isBack ? 200 : 503).end())
    dead.answerWith((_, response) => void response.destroy())
    await subscribe(one.store, 'back', back.url)
    await subscribe(one.store, 'dead', dead.url)
    await pass(1, one)
    for (let published = 0; published < 4; published += 1) {
      publishNext()
      one.announcer.published()
      await pass(10 * MINUTE, one, 5 * MINUTE)
      const tried = published === 0 ? 'signal.created' : 'wholesale_feed.bulk_change'
      t.match(
        back.events.at(-1)?.body,
        { notification_type: tried },
        'one for all after a quarter of an hour',
      )
      await pass(10 * MINUTE, one, 5 * MINUTE)
    }
    t.equal(new Set(back.events.slice(-2).map(({ body }) => body.idempotency_key)).size, 1, 'under one key')
    isBack = true
    const before = back.events.length
    await pass(5 * MINUTE, one, MINUTE)
    const after = back.events.slice(before).map(({ body }) => body)
    t.match(after, [{ notification_type: 'wholesale_feed.bulk_change' }])
    t.equal(after.length, 1)
    t.equal(after[0]?.wholesale_feed_version, versionOf(feed))
    publishNext()
    one.announcer.published()
    await pass(1, one)
    t.match(back.events.at(-1)?.body, { notification_type: 'signal.created' }, 'then as before')
    await pass(20 * HOUR, one, 2 * HOUR)
    t.match(await one.store.subscriptions.ofCaller('buyer'), [{}, { suspended: undefined }], 'not for less')
    await pass(4 * HOUR, one, 2 * HOUR)
    const { length } = dead.events
    const stored = await one.store.subscriptions.ofCaller('buyer')
    t.match(stored, [{ subscriberId: 'back', suspended: undefined }, { suspended: { reason: /for a day/ } }])
    publishNext()
    one.announcer.published()
    await pass(HOUR, one, 30 * MINUTE)
    t.equal(dead.events.length, length, 'nothing more')
    t.equal(outcomes.filter((outcome) => outcome === 'suspended').length, 1)
  },
)

onEmbeddedStorage(
  'a receiver that says gone is told nothing more; one that refuses our signature is told the next',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass } = await stage(t, storage)
    const one = await process()
    const [gone, strict] = [await receiver(), await receiver()]
    const [elsewhere, closed, keyless] = [await receiver(), await receiver(), await receiver()]
    const error = { 'www-authenticate': 'Signature error="webhook_signature_key_unknown"' }
    gone.answerWith((_, response) => void response.writeHead(410, error).end())
    closed.answerWith((_, response) => void response.writeHead(403, error).end())
    strict.answerWith((_, response) => void response.writeHead(401, error).end())
    const later = { 'www-authenticate': 'Signature error="webhook_signature_jwks_unavailable"' }
    keyless.answerWith((_, response) => {
      const [status, headers] = keyless.events.length === 1 ? ([401, later] as const) : ([200, {}] as const)
      response.writeHead(status, headers).end()
    })
    elsewhere.answerWith((_, response) => void response.writeHead(308, { location: gone.url }).end())
    await subscribe(one.store, 'gone', gone.url)
    await subscribe(one.store, 'strict', strict.url)
    await subscribe(one.store, 'keyless', keyless.url)
    await subscribe(one.store, 'elsewhere', elsewhere.url)
    await subscribe(one.store, 'closed', closed.url)
    await pass(1, one)
    for (let published = 0; published < 2; published += 1) {
      publishNext()
      one.announcer.published()
      await pass(10_000, one, 1_000)
    }
    t.equal(gone.events.length, 1, 'no redirect leads there either')
    t.equal(new Set(keysOf(strict)).size, 2)
    t.equal(strict.events.length, 2, 'a refused signature is final for its event')
    t.equal(new Set(keysOf(keyless)).size, 2)
    t.equal(keyless.events.length, 3, 'except where our keys cannot be read now')
    t.equal(new Set(keysOf(elsewhere)).size, 1, 'a redirect is a failure')
    t.equal(new Set(keysOf(closed)).size, 1, 'and so is what says of our signature anything but 401')
    const stored = await one.store.subscriptions.ofCaller('buyer')
    t.match(
      stored.find(({ subscriberId }) => subscriberId === 'gone'),
      { suspended: { reason: /410/ } },
    )
  },
)

onEmbeddedStorage('a subscriber that an operator gives up is told nothing more', async (t, storage) => {
  const { publishNext, process, subscribe, receiver, pass, outcomes } = await stage(t, storage)
  const one = await process()
  const { store, announcer } = one
  const to = await receiver()
  const job = await subscribe(store, 'given-up', to.url)
  await pass(1, one)
  const held = await store.jobs.claim(job, { owner: 'operator', ms: 60_000 }, { early: true })
  if (!held) throw new Error('somebody works on it')
  await announcer.givingUp.feed_events(held)
  t.match(await store.subscriptions.ofCaller('buyer'), [{ suspended: { reason: 'an operator gave it up' } }])
  t.same(outcomes, ['suspended'])
  publishNext()
  announcer.published()
  await pass(10_000, one, 1_000)
  t.equal(to.events.length, 0)
  t.equal(await store.work.openJob(job), undefined)
})

onEmbeddedStorage(
  'what waits for a subscriber is not told once its caller is gone or sees other keys; back again, it reads again',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, world } = await stage(t, storage)
    const one = await process()
    const slow = await receiver()
    let isBusy = true
    slow.answerWith((_, response) => void response.writeHead(isBusy ? 503 : 200).end())
    const job = await subscribe(one.store, 'slow', slow.url)
    await pass(1, one)
    const dataOf = async () => JSON.stringify((await one.store.jobs.get(job))?.data)
    const gone: (() => void)[] = [
      () => {
        world.eyes = undefined
      },
      () => {
        world.isOpen = false
      },
    ]
    for (const leave of gone) {
      isBusy = true
      publishNext()
      one.announcer.published()
      await pass(1, one)
      t.match(await dataOf(), 'signal_agent_segment_id', 'an event waits')
      leave()
      isBusy = false
      const { length } = slow.events
      await pass(10 * MINUTE, one, MINUTE)
      t.equal(slow.events.length, length, 'nothing is told')
      t.notMatch(await dataOf(), 'signal_agent_segment_id', 'and nothing is held')
      Object.assign(world, { eyes, isOpen: true })
      one.announcer.published()
      await pass(10 * MINUTE, one, MINUTE)
      t.same(typesOf(slow).slice(length), ['wholesale_feed.bulk_change'], 'until it is back')
    }
    isBusy = true
    publishNext()
    one.announcer.published()
    await pass(1, one)
    const { length } = slow.events
    isBusy = false
    const granted = [{ type: 'platform', platform: 'the-trade-desk' }] as const
    world.eyes = { open: { caller: 'buyer', visibility: 'full', grants: granted }, account: 'acc' }
    await pass(MINUTE, one, 1_000)
    t.same(typesOf(slow).slice(length), ['wholesale_feed.bulk_change'], 'not what was seen with other eyes')
  },
)

onEmbeddedStorage(
  'what waits is not told any more once others look, in the middle of a turn either; what leads back begins where it was',
  async (t, storage) => {
    const granted = [{ type: 'platform', platform: 'the-trade-desk' }] as const
    const changes: (Eyes | undefined)[] = [
      { open: { caller: 'buyer', visibility: 'full', grants: granted }, account: 'acc' },
      undefined,
    ]
    const { publishNext, process, subscribe, receiver, pass, feed, world } = await stage(t, storage)
    const one = await process()
    const slow = await receiver()
    let take = () => {}
    slow.answerWith((_, response) => {
      take()
      response.writeHead(200).end()
    })
    await subscribe(one.store, 'slow', slow.url)
    await pass(1, one)
    for (const others of changes) {
      world.eyes = eyes
      one.announcer.published()
      await pass(10 * MINUTE, one, MINUTE)
      const [{ length }, told] = [slow.events, versionOf(feed)]
      take = () => {
        world.eyes = others
      }
      for (let published = 0; published < 3; published += 1) publishNext()
      one.announcer.published()
      await pass(10 * MINUTE, one, MINUTE)
      t.same(typesOf(slow).slice(length, length + 2), ['signal.created', ...(others ? [BULK] : [])])
      t.equal(slow.events.length, length + (others ? 2 : 1), 'what was seen with other eyes is not told')
      take = () => {}
      world.eyes = eyes
      one.announcer.published()
      await pass(10 * MINUTE, one, MINUTE)
      const back = slow.events[length + 1]?.body
      t.match(back, { notification_type: BULK, previous_wholesale_feed_version: told })
    }
  },
)

onEmbeddedStorage(
  'who missed something while its account was exchanged is told so once the account can be read, also where all is as it was',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, feed, world } = await stage(t, storage)
    const own = { ...eyes.open, account: 'acc' }
    world.eyes = { ...eyes, own, standsFor: 'one' }
    const first = feed.current() as Snapshot
    const one = await process()
    const slow = await receiver()
    let isBusy = true
    slow.answerWith((_, response) => void response.writeHead(isBusy ? 503 : 200).end())
    const job = await subscribe(one.store, 'slow', slow.url)
    await pass(1, one)
    publishNext()
    one.announcer.published()
    await pass(1, one)
    const { length } = slow.events
    isBusy = false
    world.eyes = { ...eyes, own, standsFor: 'another' }
    let isRead = false
    feed.publish(first, 0, { isCurrent: () => isRead })
    one.announcer.published()
    await pass(MINUTE, one, 1_000)
    t.equal(slow.events.length, length, 'not what the account was before')
    t.equal(deliveryOf((await one.store.jobs.get(job))?.data).pending, 0)
    isRead = true
    one.announcer.published()
    await pass(1, one)
    t.same(typesOf(slow).slice(length), [BULK])
  },
)

onEmbeddedStorage('an account that is closed costs no work when the feed moves', async (t, storage) => {
  const { publishNext, process, subscribe, receiver, pass, world } = await stage(t, storage)
  const one = await process()
  const { url, events } = await receiver()
  const job = await subscribe(one.store, 'closed', url)
  await pass(1, one)
  world.isOpen = false
  const before = (await one.store.jobs.get(job))?.attempts ?? 0
  publishNext()
  one.announcer.published()
  for (let round = 0; round < 20; round += 1) await one.announcer.round()
  const after = (await one.store.jobs.get(job))?.attempts ?? 0
  t.ok(after - before <= 1, `taken up once, not ${after - before} times`)
  t.equal(events.length, 0)
})

onEmbeddedStorage(
  'who takes event after event slowly gives its place up between them, and so when we close',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, manual } = await stage(t, storage)
    const one = await process()
    const slow = await receiver()
    let takes = (response: { writeHead(status: number): { end(): void } }) => {
      manual.advance(9_000)
      response.writeHead(200).end()
    }
    slow.answerWith((_, response) => takes(response))
    const job = await subscribe(one.store, 'slow', slow.url)
    await pass(1, one)
    for (let published = 0; published < 6; published += 1) publishNext()
    one.announcer.published()
    const turns = async () => (await one.store.jobs.get(job))?.epoch ?? 0
    const before = await turns()
    await pass(1, one)
    t.same(typesOf(slow), Array(6).fill('signal.created'))
    t.equal(new Set(keysOf(slow)).size, 6, 'each once, in order')
    t.ok((await turns()) - before >= 3, 'in several turns')
    let ended: Promise<void> | undefined
    takes = (response) => {
      ended ??= one.announcer.close()
      response.writeHead(200).end()
    }
    for (let published = 0; published < 6; published += 1) publishNext()
    one.announcer.published()
    await until('we close while one is on its way', () => ended !== undefined)
    await ended
    t.equal(slow.events.length, 7, 'the one that was on its way')
    const left = (await one.store.jobs.get(job))?.data as { pending: unknown[] }
    t.equal(left.pending.length, 5)
  },
)

onEmbeddedStorage(
  'who unsubscribes, or closes the account, between two events is not told the second',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver, pass, manual, world } = await stage(t, storage)
    const one = await process()
    const ends: [string, (job: string) => Promise<void>][] = [
      ['unsubscribed', (job) => one.store.subscriptions.remove(job)],
      ['closed', async () => void Object.assign(world, { isOpen: false })],
    ]
    for (const [id, end] of ends) {
      const slow = await receiver()
      const job = await subscribe(one.store, id, slow.url)
      await pass(1, one)
      slow.answerWith(async (_, response) => {
        if (slow.events.length === 2) await end(job)
        manual.advance(1_000)
        response.writeHead(200).end()
      })
      for (let published = 0; published < 6; published += 1) publishNext()
      one.announcer.published()
      await pass(1, one)
      t.equal(slow.events.length, 2, `${id}: those before it`)
    }
  },
)

/** PostgreSQL tells the time itself, so that processes whose clocks differ agree: here time is the real one. */
test('of processes on one storage one tells, and another goes on where it stopped', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { publishNext, process, subscribe, receiver } = await stage(t, storage, systemClock)
  const one = await process()
  await one.announcer.round()
  const two = await process()
  await two.announcer.round()
  const receivers = await Promise.all(Array.from({ length: 10 }, receiver))
  for (const [index, { url }] of receivers.entries()) await subscribe(one.store, `s${index}`, url)
  one.announcer.wake()
  await until('all are known', () => one.announcer.waiting() === 10)
  const all = (count: number) =>
    until(`${count} events each`, () => receivers.every(({ events }) => events.length >= count))
  for (let published = 1; published <= 3; published += 1) {
    publishNext()
    one.announcer.published()
    two.announcer.published()
    await all(published)
  }
  t.equal(two.announcer.waiting(), 0)
  await one.announcer.close()
  await until('the other takes its turn', () => two.announcer.waiting() === 10)
  publishNext()
  two.announcer.published()
  await all(4)
  for (const each of receivers) {
    t.same(typesOf(each), Array(4).fill('signal.created'))
    t.equal(new Set(keysOf(each)).size, 4, 'each once')
  }
})

onEmbeddedStorage(
  'a generation that comes while others were just looked at is told, too',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver } = await stage(t, storage, systemClock)
    const { store, announcer } = await process()
    const one = await receiver()
    await subscribe(store, 'one', one.url)
    await announcer.round()
    for (let steps = 0; steps < 12; steps += 1) {
      await until('it is up to date', () => announcer.waiting() === 1)
      announcer.published()
      for (let step = 0; step < steps; step += 1) await undefined
      const { length } = one.events
      publishNext()
      announcer.published()
      await until(`it is told after ${steps} steps`, () => one.events.length > length)
    }
  },
)

onEmbeddedStorage(
  'a process that follows another gives its events higher ids, whatever its clock says',
  async (t, storage) => {
    const { publishNext, process, subscribe, receiver } = await stage(t, storage, systemClock)
    const receivers = await Promise.all([receiver(), receiver()])
    const behind = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() - ms })
    const ids = () => receivers.map(({ events }) => events.map(({ body }) => body.notification_id as string))
    for (const [turn, ms] of [0, 60_000, 3_600_000].entries()) {
      const { store, announcer } = await process(undefined, behind(ms))
      for (const [index, { url }] of receivers.entries()) {
        if (turn === index) await subscribe(store, `s${index}`, url)
      }
      await announcer.round()
      announcer.wake()
      await until('all are known', () => announcer.waiting() === Math.min(turn + 1, 2))
      for (let published = 1; published <= 2; published += 1) {
        publishNext()
        announcer.published()
        const told = [turn * 2 + published, (turn - 1) * 2 + published]
        await until('they are told', () =>
          receivers.every(({ events }, at) => events.length >= (told[at] ?? 0)),
        )
      }
      await announcer.close()
      await store.close()
    }
    for (const of of ids()) t.same(of, [...of].sort())
  },
)
