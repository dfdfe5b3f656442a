/**
 * What readers feel while a worker merges (docs/performance.md): p99 of pages against idle, and the same while a thread only
 * counts and gives way to nobody, and while one parses and writes listings and gives way. They are measured in turn, round
 * after round, because other work on the machine meets all alike. SIGNALS=n for another size.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import Fastify from 'fastify'
import { createFeed } from '../src/feed/feed.js'
import type { Reader } from '../src/feed/query.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { createBuilderHost } from '../src/snapshot/builder-host.js'
import { benchSlice, everyoneMay, range } from './feed-world.js'
import { watchIdleThread } from './idle-thread.js'
import { startRewriting } from './merge-limit.js'
import { haveAtHand } from './new-memory.js'
import { ours } from './ours.js'
import { type Limit, middle, report } from './report.js'

const SIGNALS = Number(process.env.SIGNALS ?? 300_000)
const UPSTREAMS = 20
const ROUNDS = 5
const LOAD_SECONDS = 3
const ROUND_BYTES = 4_000_000_000 // more than is written to while requests are measured

const reader: Reader = { caller: 'bench', visibility: 'full', grants: [] }
const slices = Array.from({ length: UPSTREAMS }, (_, at) =>
  benchSlice(at, range((SIGNALS / UPSTREAMS) * at, (SIGNALS / UPSTREAMS) * (at + 1))),
)
const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
feed.publish(buildSnapshot({ slices, judge: everyoneMay }), 0)

const app = Fastify()
app.get('/', (_, reply) => {
  const page = feed.wholesale({ maxResults: 50 }, reader, 0)
  if (page.kind !== 'page') throw new Error(`a page was expected, ${page.kind} came`)
  reply.hijack()
  reply.raw.writeHead(200, { 'content-type': 'application/json' })
  reply.raw.write('[')
  for (const piece of page.rows) reply.raw.write(piece)
  reply.raw.end(']')
})
await app.listen({ port: 0, host: '127.0.0.1' })
const { port } = app.server.address() as AddressInfo

/** p99 of requests, ms, measured by another process once that is warm. */
async function load(): Promise<number> {
  const script = fileURLToPath(new URL('./feed-load.js', import.meta.url))
  const child = ours(fork(script, [String(port), String(LOAD_SECONDS)]))
  await once(child, 'message')
  const [{ p99 }] = (await once(child, 'message')) as [{ p99: number }]
  return p99
}

async function loadBeside(thread: Worker): Promise<number> {
  const p99 = await load()
  await thread.terminate()
  return p99
}

const startCounting = () => new Worker('for (let count = 0; ; count += 1);', { eval: true })

const host = createBuilderHost()
let builds = 0
/** The longest of the serving thread, ms, with that of a thread that did nothing meanwhile. */
let longest: { stopMs: number; limit?: Limit } = { stopMs: 0 }

/** A layer of its own has no past, so that everything is merged. */
async function merge(): Promise<void> {
  const account = `layer ${builds}`
  const fresh = slices.map((slice) => ({ ...slice, upstream: `${slice.upstream}-${builds}` }))
  const policy = { policy: 'lenient' as const, providers: {} }
  const built = await host.build({ account, slices: fresh, providers: [], policy, now: 0 })
  await host.forget(account)
  builds += 1
  feed.publish(built.snapshot, builds)
}

async function whileMerging(): Promise<number> {
  await haveAtHand(ROUND_BYTES)
  const idleThread = await watchIdleThread()
  let busy = true
  const merging = (async () => {
    while (busy) await merge()
  })()
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const p99 = await load()
  delay.disable()
  const limit = await idleThread()
  const stopMs = delay.max / 1e6
  if (stopMs > longest.stopMs) longest = { stopMs, limit }
  busy = false
  await merging
  return p99
}

await load() // warms the code of both processes
await merge()
const [{ rows }] = slices as [(typeof slices)[number]]
const rounds: Record<'idle' | 'merging' | 'rewriting' | 'counting', number>[] = []
while (rounds.length < ROUNDS) {
  const idle = await load()
  const counting = await loadBeside(startCounting())
  const rewriting = await loadBeside(await startRewriting(rows))
  const merging = await whileMerging()
  rounds.push({ idle, merging, rewriting, counting })
  const times = [idle, counting, rewriting, merging].map((ms) => ms.toFixed(2))
  console.log(
    `    p99 idle, beside a thread that counts, one that parses and writes, one that merges: ${times.join(', ')} ms`,
  )
}
const typical = (who: keyof (typeof rounds)[number]) => middle(rounds.map((round) => round[who]))
const ratio = (who: keyof (typeof rounds)[number]) => typical(who) / typical('idle')
report({
  what: 'request p99 while a thread that does not give way only counts, against idle',
  measured: ratio('counting'),
  unit: 'x',
})
report({
  what: `request p99 while ${SIGNALS} listings are merged, against idle`,
  ...{ measured: ratio('merging'), unit: 'x', bar: { atMost: 1 } },
  limit: {
    is: ratio('rewriting'),
    of: 'a thread that gives way as well, and only parses, writes and hashes the same listings',
  },
})
report({
  what: '  longest stop of the serving thread meanwhile',
  ...{ measured: longest.stopMs, unit: 'ms', bar: { atMost: 50 } },
  ...(longest.limit && { limit: longest.limit }),
})
await host.close()
await app.close()
