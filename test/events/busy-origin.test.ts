import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { createAnnouncer } from '../../src/events/announcer.js'
import { createCourier } from '../../src/events/courier.js'
import type { Post } from '../../src/events/letter.js'
import { createStandings } from '../../src/events/standings.js'
import { deliveryOf, subscriptionJob } from '../../src/events/stream.js'
import { createWebhook } from '../../src/events/webhook.js'
import { embedded } from '../store/support/storages.js'
import { createManualClock } from '../support/upstream-clock.js'
import { until } from '../support/upstream-world.js'
import { eyes, publishNumbers } from './support/numbered-feed.js'
import { EVERY_EVENT, HMAC, startSubscriber } from './support/subscriber.js'

const PLACES = 32 // of one caller at one origin
const ACCOUNTS = ['unsubscribed', 'closed', 'unknown', 'kept'] as const

test('who leaves while a delivery waits for a place at a busy origin is not told', async (t) => {
  const storage = await embedded(t)
  const { clock, advance } = createManualClock(storage.clock.now)
  const store = await storage.open({ now: clock.now })
  const hanging: ServerResponse[] = []
  const receiver = await startSubscriber({
    answer: ({ headers }, response) => {
      if (headers['x-hangs']) hanging.push(response)
      else response.end()
    },
  })
  t.teardown(() => receiver.close())
  const courier = createCourier({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(courier.close)
  let posted = 0
  /** Patient, because the machine may be busy, too. */
  const post: Post = (letter, ...more) => {
    posted += 1
    return courier.post({ ...letter, timeoutMs: 120_000 }, ...more)
  }
  const { feed, publish } = publishNumbers()
  publish([1])
  const standings = createStandings({ feed, clock })
  const left = new Set<string>()
  const announcer = createAnnouncer({
    ...{ store, standings, clock, random: Math.random, newId: randomUUID },
    webhook: createWebhook({ post, now: clock.now }),
    eyesOf: (_, account) => (left.has('unknown') && account === 'unknown' ? undefined : { ...eyes, account }),
    isOpen: async (_, account) => !(left.has('closed') && account === 'closed'),
    onProblem: (problem) => t.comment(problem),
  })
  t.teardown(() => announcer.close())
  const config = { url: receiver.url, event_types: EVERY_EVENT, authentication: HMAC }
  for (const accountId of ACCOUNTS) {
    const versions = await standings.current({ ...eyes, account: accountId })
    await store.subscriptions.add({
      ...{ caller: 'buyer', accountId, subscriberId: accountId, job: accountId },
      config,
    })
    await store.jobs.add(subscriptionJob(accountId, 'buyer', { versions, hasMissed: false }))
  }
  announcer.start()
  await until('all are known', () => announcer.waiting() === ACCOUNTS.length)

  const letter = { caller: 'buyer', url: receiver.url, body: '{}', timeoutMs: 120_000, maxBytes: 1_000 }
  const busy = Array.from({ length: PLACES }, () => post({ ...letter, headers: { 'x-hangs': '1' } }))
  await until('all places are taken', () => hanging.length === PLACES)
  publish([1, 2])
  announcer.published()
  await until('all wait for a place', () => posted === PLACES + ACCOUNTS.length)
  await store.subscriptions.remove('unsubscribed')
  left.add('closed').add('unknown')
  advance(1_000)
  for (const response of hanging) response.end()
  await Promise.all(busy)
  const isAtRest = async () =>
    (await store.work.openJobs(10)).every(({ isHeld, dueInMs }) => !isHeld && dueInMs > 0)
  await until('nothing is left to be done', isAtRest)
  const told = receiver.events.slice(PLACES).map(({ body }) => body.subscriber_id)
  t.same(told, ['kept'])
  t.equal(await store.work.openJob('unsubscribed'), undefined, 'its job has ended')
  for (const job of ACCOUNTS) t.equal(deliveryOf((await store.jobs.get(job))?.data).failures, 0, job)
})
