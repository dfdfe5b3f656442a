import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { test } from 'tap'
import { createAnnouncer } from '../../src/events/announcer.js'
import { createPost } from '../../src/events/letter.js'
import { createStandings } from '../../src/events/standings.js'
import { subscriptionJob } from '../../src/events/stream.js'
import { createWebhook } from '../../src/events/webhook.js'
import { systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import type { Store } from '../../src/store/store.js'
import { embedded } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { eyes, publishNumbers } from './support/numbered-feed.js'
import { EVERY_EVENT, startSubscriber } from './support/subscriber.js'

const SUBSCRIBERS = 64

/** The jobs of a store, and how often each of its methods was called. */
function counted({ jobs }: Store) {
  const calls = new Map<PropertyKey, number>()
  const watched = new Proxy(jobs, {
    get(target, name, receiver) {
      calls.set(name, (calls.get(name) ?? 0) + 1)
      return Reflect.get(target, name, receiver)
    },
  })
  return { jobs: watched, calls }
}

test('what is written for many who are told at once is written together', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open({ now: Date.now })
  const { jobs, calls } = counted(store)
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(() => egress.close())
  const subscriber = await startSubscriber()
  t.teardown(() => subscriber.close())
  const { feed, publish } = publishNumbers()
  publish([1])
  const standings = createStandings({ feed, clock: systemClock })
  const { privateKey } = generateKeyPairSync('ed25519')
  const webhook = createWebhook({
    post: createPost({ send: egress.send, signer: createSigner({ keyId: 'k', privateKey }, WEBHOOKS) }),
    now: Date.now,
  })
  let [answered, answerAll] = [0, () => {}]
  const allAnswered = new Promise<void>((resolve) => {
    answerAll = resolve
  })
  const announcer = createAnnouncer({
    store: { ...store, jobs },
    ...{ standings, clock: systemClock, random: Math.random, newId: randomUUID },
    /** All answers are known at one time, however busy the machine is. */
    async webhook(...delivery) {
      const outcome = await webhook(...delivery)
      answered += 1
      if (answered === SUBSCRIBERS) answerAll()
      await allAnswered
      return outcome
    },
    eyesOf: () => eyes,
    isOpen: async () => true,
    onProblem: (problem) => t.comment(problem),
    threadTime: { spent: () => ({ idle: 0, active: 0 }), after: (ms, task) => setTimeout(task, ms) },
  })
  for (let at = 0; at < SUBSCRIBERS; at += 1) {
    const config = { url: `${subscriber.url}${at}`, event_types: EVERY_EVENT }
    await store.subscriptions.add({
      ...{ caller: `c${at % 4}`, accountId: 'acc', subscriberId: `s${at}`, job: `sub_${at}` },
      config,
    })
    const versions = await standings.current(eyes)
    await store.jobs.add(subscriptionJob(`sub_${at}`, `c${at % 4}`, { versions, hasMissed: false }))
  }
  t.teardown(() => announcer.close())
  announcer.start()
  await until('all are known', () => announcer.waiting() === SUBSCRIBERS)
  calls.clear()
  publish([1, 2])
  announcer.published()
  await until('all are told', () => announcer.waiting() === SUBSCRIBERS && subscriber.events.length > 0)
  t.equal(subscriber.events.length, SUBSCRIBERS, 'each once')
  t.equal(new Set(subscriber.events.map(({ body }) => body.idempotency_key)).size, SUBSCRIBERS)
  const named = (name: string) => calls.get(name) ?? 0
  t.ok(named('claimAll') <= SUBSCRIBERS / 4, `${named('claimAll')} claims`)
  t.ok(named('changeAll') <= SUBSCRIBERS / 4, `${named('changeAll')} writes, two of each subscriber`)
  t.equal(named('claim') + named('note') + named('release'), 0, 'none of one alone')
})
