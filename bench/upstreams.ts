/**
 * What reading upstreams costs: a cold mirror of one and of twenty upstreams, and a poll that answers `unchanged`
 * (docs/performance.md). Agents run in a child process. `node dist/bench/upstreams.js [rows each of the twenty]`.
 */
import { Agent } from 'undici'
import { systemClock } from '../src/net/clock.js'
import { createEgress } from '../src/net/egress.js'
import { giveBackMoved, lend } from '../src/process/memory.js'
import { readReply } from '../src/upstreams/agent/readers.js'
import { createUpstreams, type Upstreams } from '../src/upstreams/upstreams.js'
import { givenNumber } from '../test/support/given.js'
import { startAgents } from './agents.js'
import { report } from './report.js'

const ROWS_EACH = givenNumber(0, 50_000)
const PAGE = 100
const BOUND_MS = 60_000
const WARM_MS = 1_000
const POLL_MS = 3_000
const COLD_SECONDS = 8 // of a million signals

const nowhere = {
  read: async () => undefined,
  write: async () => {},
  remove: async () => {},
  list: async () => [],
}

function open(urls: string[], refreshMs: number) {
  let sent = 0
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const upstreams = createUpstreams({
    config: {
      registries: [],
      statics: urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' as const })),
      policy: {},
      account: { brand: { domain: 'tributary.example' }, operator: 'tributary.example' },
      defaults: {
        timeoutMs: 30_000,
        refreshMs,
        staleAfterMs: 3_600_000,
        dropAfterMs: 86_400_000,
        walkMs: 3_600_000,
        pageSize: PAGE,
        concurrency: 4,
      },
    },
    send: (request) => {
      sent += 1
      return egress.send(request)
    },
    blobs: nowhere,
    clock: systemClock,
    random: Math.random,
    referencesFor: () => [],
    onTrouble: console.error,
  })
  return { egress, upstreams, sent: () => sent }
}

const held = (upstreams: Upstreams) => upstreams.slices().reduce((sum, { rows }) => sum + rows.count, 0)

async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + BOUND_MS
  while (!holds() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** The body of one answer, by the HTTP client alone: no budget, no check of the address, no deadline. */
function bareBody(client: Agent, url: URL, body: string): Promise<Buffer> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  return new Promise((resolve, reject) => {
    let whole: Buffer = Buffer.alloc(0)
    let at = 0
    client.dispatch(
      { origin: url.origin, path: url.pathname, method: 'POST', headers, body },
      {
        onRequestStart() {},
        onResponseStart(_controller, _status, { 'content-length': length }) {
          whole = lend(Number(length)).subarray(0, Number(length))
        },
        onResponseData(_controller, chunk) {
          whole.set(chunk, at)
          at += chunk.byteLength
        },
        onResponseEnd: () => resolve(whole),
        onResponseError: (_controller, error) => reject(error),
      },
    )
  })
}

/** Seconds to ask for all pages of all agents and to read each in the thread that reads answers: nothing is walked or kept. */
async function bareWalk(urls: readonly string[], rows: number): Promise<number> {
  const client = new Agent()
  const startedAt = performance.now()
  async function walk(url: URL): Promise<void> {
    for (let at = 0; at < rows; at += PAGE) {
      const pagination = { max_results: PAGE, cursor: String(at) }
      const params = { name: 'get_signals', arguments: { discovery_mode: 'wholesale', pagination } }
      const asked = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
      const messages = [await bareBody(client, url, asked)]
      const read = await readReply(url.href, { messages, id: 1, as: 'mcp', bounds: {} })
      const outcome = read.kind === 'answer' ? read.outcome : read
      if (outcome.kind !== 'answer') throw new Error(`no page at ${url.href}: ${JSON.stringify(outcome)}`)
      giveBackMoved(outcome.rows.bytes)
    }
  }
  await Promise.all(urls.map((url) => walk(new URL(url))))
  const seconds = (performance.now() - startedAt) / 1_000
  await client.close()
  return seconds
}

async function coldMirror(agents: number, rows: number): Promise<void> {
  const { child, urls } = await startAgents(agents, rows)
  const { egress, upstreams } = open(urls, 3_600_000)
  let peak = 0
  const sampling = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 50)
  const cpu = process.cpuUsage()
  const start = performance.now()
  await upstreams.start()
  await until(() => held(upstreams) === agents * rows)
  const seconds = (performance.now() - start) / 1_000
  const used = process.cpuUsage(cpu)
  clearInterval(sampling)
  const bytes = upstreams
    .slices()
    .reduce((sum, { rows: { length } }) => length.reduce((a, b) => a + b, sum), 0)
  console.log(
    `cold mirror, ${agents} upstream(s) x ${rows}: ${held(upstreams)} listings in ${seconds.toFixed(2)} s, ` +
      `${Math.round(held(upstreams) / seconds)} listings/s, own cpu ${((used.user + used.system) / 1e6).toFixed(2)} s, ` +
      `payload ${(bytes / 1e6).toFixed(0)} MB, peak rss ${(peak / 1e6).toFixed(0)} MB`,
  )
  await upstreams.close()
  await egress.close()
  if (agents > 1) {
    report({
      what: `cold mirror of ${agents * rows} signals from ${agents} upstreams`,
      ...{ measured: seconds, unit: 's', bar: { atMost: (COLD_SECONDS * agents * rows) / 1_000_000 } },
      limit: {
        is: await bareWalk(urls, rows),
        of: 'the same pages by the HTTP client alone, each read in the thread, nothing kept',
      },
    })
  }
  child.kill()
}

async function unchangedPoll(rows: number): Promise<{ micros: number; grown: number }> {
  const { child, urls } = await startAgents(1, rows)
  const { egress, upstreams, sent } = open(urls, 1)
  await upstreams.start()
  await until(() => held(upstreams) === rows)
  await new Promise((resolve) => setTimeout(resolve, WARM_MS))
  const [cpu, before, heap] = [process.cpuUsage(), sent(), process.memoryUsage()]
  await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  const used = process.cpuUsage(cpu)
  const polls = sent() - before
  const each = (used.user + used.system) / polls
  const grown = process.memoryUsage().arrayBuffers - heap.arrayBuffers
  console.log(
    `unchanged poll of ${rows} rows: ${each.toFixed(0)} us cpu, ${polls} polls, ` +
      `array buffers grown by ${(grown / 1e6).toFixed(1)} MB`,
  )
  await upstreams.close()
  await egress.close()
  child.kill()
  return { micros: each, grown }
}

await coldMirror(1, 100_000)
await coldMirror(20, ROWS_EACH)
const small = await unchangedPoll(1_000)
const large = await unchangedPoll(100_000)
report({
  what: '`unchanged` poll of an upstream, CPU with 100,000 rows against 1,000',
  ...{ measured: large.micros / small.micros, unit: 'x', bar: { atMost: 1.2 } },
})
report({
  what: 'the buffers that these polls left',
  ...{ measured: large.grown / 1e6, unit: 'MB', bar: { atMost: 1 } },
})
