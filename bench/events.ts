/**
 * How soon a thousand subscribers know of a change, and what it costs whoever is served by the same process meanwhile: a feed on
 * SQLite, ten callers with a hundred subscriptions each, receivers and readers in processes of their own.
 */
import { fork } from 'node:child_process'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { createAnnouncer, subscriptionJob } from '../src/events/announcer.js'
import { createStandings, type Eyes } from '../src/events/standings.js'
import { createWebhook } from '../src/events/webhook.js'
import { createFeed, type Feed } from '../src/feed/feed.js'
import { systemClock } from '../src/net/clock.js'
import { createEgress } from '../src/net/egress.js'
import { WEBHOOKS } from '../src/signing/profile.js'
import { createSigner } from '../src/signing/sign.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import type { Snapshot } from '../src/snapshot/snapshot.js'
import { openStore } from '../src/store/store.js'
import { benchSlice } from './feed-world.js'
import { report } from './report.js'

const SIGNALS = 100_000
const [CALLERS, EACH] = [10, 100]
const LOAD_SECONDS = 4
const GENERATIONS = 3 // each with a thousand changes, one after the other, while the feed is read
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

type Latencies = { p50: number; p99: number }

function pageOf(feed: Feed): readonly Uint8Array[] {
  const answer = feed.wholesale({ maxResults: 50 }, { caller: 'reader', visibility: 'full', grants: [] }, 0)
  if (answer.kind !== 'page') throw new Error(`a page was expected, ${answer.kind} came`)
  return answer.rows
}

/** A page of the feed, as it is served; resolves with what readers of it, in another process, measure for some seconds. */
async function serve(feed: Feed) {
  const server = createServer((_, response) => {
    const rows = pageOf(feed)
    response.writeHead(200, { 'content-type': 'application/json' }).write('[')
    for (const piece of rows) response.write(piece)
    response.end(']')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    async load(): Promise<Latencies> {
      const child = fork(new URL('./feed-load.js', import.meta.url), [String(port), String(LOAD_SECONDS)])
      return ((await once(child, 'message')) as [Latencies])[0]
    },
    close: () => server.close(),
  }
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
  let newest: Snapshot | undefined
  const publish = () => {
    const previous = newest
    const slices = [benchSlice(0, numbers, (n) => (dearer.has(n) ? 90 : n % 40))]
    const snapshot = buildSnapshot({ ...(previous && { previous }), slices, judge })
    newest = snapshot
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
  /** Resolves with the seconds until everybody was told. */
  async function tell(swap: () => void, events: number): Promise<number> {
    const startedAt = performance.now()
    swap()
    announcer.published()
    expected += CALLERS * EACH * events
    while ((await count()) < expected) await wait(5)
    const seconds = (performance.now() - startedAt) / 1_000
    while (announcer.waiting() < CALLERS * EACH) await wait(5)
    return seconds
  }
  function changed(changes: number): () => void {
    for (let at = 0; at < changes; at += 1) dearer.add(changes * 7 + dearer.size * 3)
    return publish()
  }

  for (const changes of [1, 10]) {
    const swap = changed(changes)
    await wait(100)
    const seconds = await tell(swap, changes)
    console.log(
      `${changes} of ${SIGNALS} signals changed: all ${CALLERS * EACH} told in ${seconds.toFixed(2)} s`,
    )
  }
  const serving = await serve(feed)
  const idle = await serving.load()
  const swaps = Array.from({ length: GENERATIONS }, () => changed(1_000))
  await wait(500)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const reading = serving.load()
  let longest = 0
  for (const swap of swaps) longest = Math.max(longest, await tell(swap, 1))
  const meanwhile = await reading
  delay.disable()
  serving.close()
  console.log(`a page is served idle in p50 ${idle.p50.toFixed(2)} ms, p99 ${idle.p99.toFixed(2)} ms`)
  const what = `events: ${CALLERS * EACH} subscribers, a generation with 1000 changes of ${SIGNALS}`
  report({ what: `${what}, all told in`, measured: longest, unit: 's', bar: { atMost: 10 } })
  report({
    what: '  p99 of pages served meanwhile, against idle',
    ...{ measured: meanwhile.p99 / idle.p99, unit: 'x', bar: { atMost: 2 } },
  })
  report({
    what: '  longest stop of the serving thread meanwhile',
    measured: delay.max / 1e6,
    unit: 'ms',
    bar: { atMost: 50 },
  })
  await announcer.close()
  await egress.close()
  await store.close()
  child.kill()
  await rm(folder, { recursive: true, force: true })
}

if (process.argv[2] === 'receive') receive()
else await bench()
