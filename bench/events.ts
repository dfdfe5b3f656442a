/**
 * How soon a thousand subscribers know of a change, and what it costs whoever is served by the same process meanwhile: a feed on
 * SQLite, ten callers with a hundred subscriptions each, receivers and readers in processes of their own. Pages are measured in
 * turns: alone, while all are told, and while the same thread does the least that deliveries can be. All rounds count as one.
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
import { declaredAccountsOf } from '../src/composition/settings.js'
import { createAnnouncer, TOGETHER } from '../src/events/announcer.js'
import { createCourier } from '../src/events/courier.js'
import { createStandings, type Eyes } from '../src/events/standings.js'
import { subscriptionJob } from '../src/events/stream.js'
import { createWebhook } from '../src/events/webhook.js'
import { createFeed, type Feed } from '../src/feed/feed.js'
import { systemClock } from '../src/net/clock.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import type { Snapshot } from '../src/snapshot/snapshot.js'
import { openStore } from '../src/store/store.js'
import { benchSlice } from './feed-world.js'
import { ours } from './ours.js'
import { report } from './report.js'

const SIGNALS = 100_000
const [CALLERS, EACH] = [10, 100]
const IDLE_SECONDS = 5 // about as long as all are told
const LONGEST_SECONDS = 30
const LATER_MS = 3_600_000 // after all has been measured
const ROUNDS = 4
/** What is sent where nothing but sending is measured, of the size of a delivery. */
const PLAIN_BODY = JSON.stringify({ event: 'x'.repeat(1_000) })
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

function pageOf(feed: Feed): readonly Uint8Array[] {
  const answer = feed.wholesale({ maxResults: 50 }, { caller: 'reader', visibility: 'full', grants: [] }, 0)
  if (answer.kind !== 'page') throw new Error(`a page was expected, ${answer.kind} came`)
  return answer.rows
}

/** In all rounds together some ten thousand pages are asked for, so that a hundred of them are slower. */
function p99(latencies: readonly number[]): number {
  const sorted = Float64Array.from(latencies).sort()
  return sorted[Math.floor(sorted.length * 0.99)] as number
}

/** Serves a page of the feed; `load` resolves with how long readers of it, in another process, wait until `work` is done, ms. */
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
    async load(work: () => Promise<unknown>): Promise<readonly number[]> {
      const script = new URL('./feed-load.js', import.meta.url)
      const child = ours(fork(script, [String(port), String(LONGEST_SECONDS)]))
      await once(child, 'message') // it is warm
      const measured = once(child, 'message') as Promise<[{ latencies: readonly number[] }]>
      await work()
      child.send('end')
      return (await measured)[0].latencies
    },
    close: () => server.close(),
  }
}

async function bench(): Promise<void> {
  const receivers = new URL('./events-receivers.js', import.meta.url)
  const child = ours(fork(receivers))
  const said = <T>() => new Promise<T>((resolve) => child.once('message', (value) => resolve(value as T)))
  const { port } = await said<{ port: number }>()
  /** Resolves when so many events have come in all, with how many have. */
  const come = async (inAll: number) => {
    const answer = said<number>()
    child.send(inAll)
    return await answer
  }
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'))
  const store = await openStore({ url: `file:${folder}`, now: Date.now, onProblem: console.error })
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
  const policy = { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} }
  const courier = createCourier({ policy, key: { keyId: 'k', privateKey } })
  const webhook = createWebhook({ post: courier.post, now: Date.now })
  const announcer = createAnnouncer({
    ...{ store, standings, webhook, clock: systemClock, random: Math.random, newId: randomUUID },
    eyesOf: eyes,
    isOpen: declaredAccountsOf(store),
    onProblem: console.error,
  })
  for (let at = 0; at < CALLERS; at += 1) {
    await store.accounts.put({
      ...{ caller: `caller-${at}`, accountId: 'acc', naturalKey: '{}', settings: {}, status: 'active' },
      notificationConfigs: [],
    })
  }
  for (let at = 0; at < CALLERS * EACH; at += 1) {
    const [caller, job] = [`caller-${at % CALLERS}`, `sub_${at}`]
    const config = { url: `http://127.0.0.1:${port}/${at}`, event_types: EVENT_TYPES }
    await store.subscriptions.add({ caller, accountId: 'acc', subscriberId: `s${at}`, job, config })
    const versions = await standings.current(eyes(caller))
    await store.jobs.add(subscriptionJob(job, caller, { versions, hasMissed: false }))
  }
  announcer.start()
  while (announcer.waiting() < CALLERS * EACH) await wait(20)
  let expected = await come(0)
  /** Resolves with the seconds until everybody was told. */
  async function tell(swap: () => void, events: number): Promise<number> {
    const startedAt = performance.now()
    swap()
    announcer.published()
    expected += CALLERS * EACH * events
    await come(expected)
    const seconds = (performance.now() - startedAt) / 1_000
    while (announcer.waiting() < CALLERS * EACH) await wait(20)
    return seconds
  }
  function changed(changes: number): () => void {
    for (let at = 0; at < changes; at += 1) dearer.add(changes * 7 + dearer.size * 3)
    return publish()
  }

  await tell(changed(1), 1) // receivers are connected to, and code is warm
  const serving = await serve(feed)
  const plain = Array.from({ length: CALLERS * EACH }, (_, at) => `plain_${at}`)
  const plainJob = { kind: 'plain', lane: 'plain', caller: 'bench', data: {}, afterMs: LATER_MS }
  await store.jobs.addAll(plain.map((id) => ({ job: { id, ...plainJob } })))
  /** A job is claimed, its body is kept and, when it is sent, the job is given up: no delivery can do with less. */
  async function postKept(ids: readonly string[]): Promise<void> {
    const claimed = await store.jobs.claimAll(ids, { owner: 'bench', ms: 60_000 })
    const held = claimed.filter((one) => one !== undefined)
    await store.jobs.changeAll(held.map((one) => ({ held: one, data: { body: PLAIN_BODY } })))
    await Promise.all(
      held.map(async ({ id }, at) => {
        await wait(at)
        await webhook('buyer', { url: `http://127.0.0.1:${port}/${id}` }, PLAIN_BODY)
      }),
    )
    await store.jobs.changeAll(
      held.map((one) => ({ held: one, data: {}, afterMs: LATER_MS, forgetsAttempts: true })),
    )
  }
  /** As many bodies, kept and given to the thread that sends as fast: no comparison, no order, nobody looked for. */
  async function post(seconds: number): Promise<void> {
    await store.jobs.hasten(plain)
    const startedAt = performance.now()
    const posted: Promise<unknown>[] = []
    for (let at = 0; at < plain.length; at += TOGETHER) {
      const due = (seconds * 1_000 * at) / plain.length
      await wait(Math.max(0, due - (performance.now() - startedAt)))
      posted.push(postKept(plain.slice(at, at + TOGETHER)))
    }
    await Promise.all(posted)
    expected += plain.length
  }

  const swaps = Array.from({ length: ROUNDS }, () => changed(1_000))
  let [longest, stopMs] = [0, 0]
  const waited = { alone: [] as number[], told: [] as number[], posted: [] as number[] }
  for (const swap of swaps) {
    const alone = await serving.load(() => wait(IDLE_SECONDS * 1_000))
    let seconds = 0
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const told = await serving.load(async () => {
      seconds = await tell(swap, 1)
    })
    delay.disable()
    longest = Math.max(longest, seconds)
    stopMs = Math.max(stopMs, delay.max / 1e6)
    const posted = await serving.load(() => post(seconds))
    for (const [name, latencies] of Object.entries({ alone, told, posted })) {
      waited[name as keyof typeof waited].push(...latencies)
    }
    const shown = [alone, told, posted].map((latencies) => p99(latencies).toFixed(2))
    console.log(
      `all told in ${seconds.toFixed(2)} s; p99 of pages ${shown[0]} ms alone, ${shown[1]} ms, posted ${shown[2]} ms`,
    )
  }
  serving.close()
  const what = `events: ${CALLERS * EACH} subscribers, a generation with 1000 changes of ${SIGNALS}`
  report({ what: `${what}, all told in`, measured: longest, unit: 's', bar: { atMost: 10 } })
  const least = p99(waited.posted) / p99(waited.alone)
  report({
    what: '  p99 of pages served meanwhile, against pages alone',
    ...{ measured: p99(waited.told) / p99(waited.alone), unit: 'x', bar: { atMost: 2 } },
    limit: {
      is: least,
      of: 'the same thread keeps and hands on as many bodies as fast, and nothing else',
    },
  })
  report({ what: '  the same while it only keeps and hands on as much', measured: least, unit: 'x' })
  report({
    what: '  longest stop of the serving thread meanwhile',
    measured: stopMs,
    unit: 'ms',
    bar: { atMost: 50 },
  })
  await announcer.close()
  await courier.close()
  await store.close()
  child.kill()
  await rm(folder, { recursive: true, force: true })
}

await bench()
