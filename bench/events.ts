/**
 * How soon a thousand subscribers know of a change, and what it costs whoever serves meanwhile: a feed on SQLite, ten callers with a
 * hundred subscriptions each, and receivers in a process of their own.
 */
import { fork } from 'node:child_process'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { createAnnouncer, subscriptionJob } from '../src/events/announcer.js'
import { createStandings, type Eyes } from '../src/events/standings.js'
import { createWebhook } from '../src/events/webhook.js'
import { createFeed } from '../src/feed/feed.js'
import { systemClock } from '../src/net/clock.js'
import { createEgress } from '../src/net/egress.js'
import { WEBHOOKS } from '../src/signing/profile.js'
import { createSigner } from '../src/signing/sign.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { openStore } from '../src/store/store.js'
import { benchSlice } from './feed-world.js'
import { report } from './report.js'

const SIGNALS = 100_000
const [CALLERS, EACH] = [10, 100]
const EVENT_TYPES = [
  'signal.created',
  'signal.updated',
  'signal.priced',
  'signal.removed',
  'wholesale_feed.bulk_change',
]
/** Observe policy: authorization has benches of its own. */
const judge = () => ({
  stamp: 'all',
  policy: 'observe' as const,
  decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
  definition: () => undefined,
})

/** Counts what comes, and says so when it is asked. */
function receive(): void {
  let events = 0
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      events += 1
      response.writeHead(200).end()
    })
  })
  server.listen(0, '127.0.0.1', () => process.send?.(server.address()))
  process.on('message', () => process.send?.(events))
}

async function bench(): Promise<void> {
  const child = fork(new URL(import.meta.url), ['receive'])
  const said = <T>() => new Promise<T>((resolve) => child.once('message', (value) => resolve(value as T)))
  const { port } = await said<{ port: number }>()
  const count = async () => {
    const answer = said<number>()
    child.send('count')
    return await answer
  }
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'))
  const store = await openStore({ url: `file:${folder}`, now: Date.now, onProblem: console.error })
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const numbers = Array.from({ length: SIGNALS }, (_, at) => at)
  const dearer = new Set<number>()
  const publish = () => {
    const previous = feed.current()
    const slices = [benchSlice(0, numbers, (n) => (dearer.has(n) ? 90 : n % 40))]
    const snapshot = buildSnapshot({ ...(previous && { previous }), slices, judge })
    return () => feed.publish(snapshot, Date.now())
  }
  publish()()
  const eyes = (caller: string): Eyes => ({
    open: { caller, visibility: 'full', grants: [] },
    account: 'acc',
  })
  const standings = createStandings({ feed, clock: systemClock })
  const { privateKey } = generateKeyPairSync('ed25519')
  const announcer = createAnnouncer({
    ...{ store, standings, clock: systemClock, random: Math.random, newId: randomUUID },
    webhook: createWebhook({
      send: egress.send,
      now: Date.now,
      signer: createSigner({ keyId: 'k', privateKey }, WEBHOOKS),
    }),
    eyesOf: eyes,
    isOpen: async () => true,
    onProblem: console.error,
  })
  for (let at = 0; at < CALLERS * EACH; at += 1) {
    const [caller, job] = [`caller-${at % CALLERS}`, `sub_${at}`]
    const config = { url: `http://127.0.0.1:${port}/${at}`, event_types: EVENT_TYPES }
    await store.subscriptions.add({ caller, accountId: 'acc', subscriberId: `s${at}`, job, config })
    const versions = await standings.current(eyes(caller))
    await store.jobs.add(subscriptionJob(job, caller, { versions, hasMissed: false }))
  }
  announcer.start()
  while (announcer.waiting() < CALLERS * EACH) await wait(20)
  let expected = await count()
  for (const changes of [1, 10, 1_000]) {
    for (let at = 0; at < changes; at += 1) dearer.add(changes * 7 + at * 3)
    const swap = publish()
    const delay = monitorEventLoopDelay({ resolution: 1 })
    await wait(100)
    delay.enable()
    const startedAt = performance.now()
    swap()
    announcer.published()
    expected += CALLERS * EACH * (changes > 100 ? 1 : changes)
    while ((await count()) < expected) await wait(5)
    const seconds = (performance.now() - startedAt) / 1_000
    delay.disable()
    const longest = delay.max / 1e6
    console.log(
      `${changes} of ${SIGNALS} signals changed: ${CALLERS * EACH} subscribers told in ${seconds.toFixed(2)} s, ` +
        `longest stop ${longest.toFixed(0)} ms, p99 ${(delay.percentile(99) / 1e6).toFixed(0)} ms`,
    )
    if (changes === 1_000) {
      const what = `${CALLERS * EACH} subscribers told of a generation with ${changes} changes`
      report({ what, measured: seconds, unit: 's', bar: { atMost: 10 } })
    }
    while (announcer.waiting() < CALLERS * EACH) await wait(20)
  }
  await announcer.close()
  await egress.close()
  await store.close()
  child.kill()
  await rm(folder, { recursive: true, force: true })
}

if (process.argv[2] === 'receive') receive()
else await bench()
