/**
 * What several processes on one PostgreSQL cost (docs/replicas.md): CPU for each request when there are one, two and three; and
 * for a feed of each size, how long what has changed takes to the process that built it and to the other one, and how many
 * bytes PostgreSQL took for it. `node dist/bench/replicas.js [signals...]`.
 */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import autocannon from 'autocannon'
import pg from 'pg'
import { openStore } from '../src/store/store.js'
import { postgresBinaries, startPostgres } from '../test/store/support/postgres.js'
import { type Running, startCommand } from '../test/support/command.js'
import { givenNumbers } from '../test/support/given.js'
import { startAgents } from './agents.js'
import { type Limit, report } from './report.js'

const SIZES = givenNumbers([100_000])
const AGENTS = 20
const SERVED = 20_000 // signals, while requests are counted
const REQUESTS = 15_000
const WARM_UP = 5_000 // by each: code that is run often becomes faster
const CONNECTIONS = 8
const IDLE_MS = 5_000
const READS_MS = 10_000 // of polling every agent every second
/** Nothing has changed for so long: it is all there. */
const STILL_MS = 3_000
const TAKEN_EVERY_MS = 250
const LONGEST_MS = 900_000
const TICK_MS = 10 // of CPU times in /proc
const MB = 1024 * 1024
const TOKEN = 'bench'

type Replica = Running & { url: string }
type Seen = { version: string | undefined; total: number | undefined }

function page(size: number): string {
  const args = { discovery_mode: 'wholesale', pagination: { max_results: size } }
  return JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_signals', arguments: args },
  })
}

const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  authorization: `Bearer ${TOKEN}`,
}

async function see({ url }: Replica): Promise<Seen> {
  const answer = await fetch(`${url}/mcp`, { method: 'POST', headers: HEADERS, body: page(1) })
  const { result } = (await answer.json()) as {
    result?: { structuredContent: { pricing_version?: string; pagination?: { total_count?: number } } }
  }
  const { pricing_version: version, pagination } = result?.structuredContent ?? {}
  return { version, total: pagination?.total_count }
}

/** When each replica began to show what all of them show once nothing has changed for a while, ms since the epoch. */
async function settled(replicas: readonly Replica[], holds: (seen: Seen) => boolean): Promise<number[]> {
  const last = replicas.map(() => ({ version: undefined as string | undefined, at: 0, holds: false }))
  for (const end = Date.now() + LONGEST_MS; ; await wait(10)) {
    for (const [at, replica] of replicas.entries()) {
      const seen = await see(replica)
      const before = last[at]
      const isSame = before?.version === seen.version
      last[at] = { version: seen.version, at: isSame ? (before?.at ?? 0) : Date.now(), holds: holds(seen) }
    }
    const isAlike = new Set(last.map(({ version }) => version)).size === 1
    if (isAlike && last.every((one) => one.holds && one.at + STILL_MS < Date.now())) {
      return last.map(({ at }) => at)
    }
    if (Date.now() > end) throw new Error(`it never settled: ${JSON.stringify(last)}`)
  }
}

/** CPU time of a process so far, ms: the 14th and 15th fields of its stat. */
function cpuOf({ process: { pid } }: Running): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return TICK_MS * (Number(fields[11]) + Number(fields[12]))
}

async function world<T>(
  binaries: string,
  signals: number,
  work: (start: () => Promise<Replica>, urls: readonly string[], database: string) => Promise<T>,
): Promise<T> {
  const postgres = await startPostgres(binaries)
  const agents = await startAgents(AGENTS, signals / AGENTS)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'))
  const file = join(folder, 'config.json')
  const config = {
    listen: { port: 0 },
    upstreams: agents.urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' })),
    defaults: { refresh: '1s' },
    authorization: { policy: 'lenient' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      keys: [{ id: 'bench', token_sha256: hash('sha256', TOKEN, 'hex') }],
      rate_limit: { per_second: 1e6, burst: 1_000_000 },
    },
    storage: { url: postgres.url, key: 'a storage key of the benchmark, long enough' },
  }
  await writeFile(file, JSON.stringify(config))
  const running: Running[] = []
  const start = async (): Promise<Replica> => {
    const one = startCommand(['serve', '--config', file], {}, { longestMs: LONGEST_MS })
    running.push(one)
    const [, url = ''] = await one.printed(/in one feed at (http:\/\/127\.0\.0\.1:\d+)/)
    return { ...one, url }
  }
  try {
    return await work(start, agents.urls, postgres.url)
  } finally {
    for (const { process: child, finished } of running) {
      child.kill('SIGKILL')
      await finished
    }
    agents.child.kill()
    await postgres.remove()
    await rm(folder, { recursive: true, force: true })
  }
}

/** How often agents are asked for pages, a second. */
async function readsInASecond([first = '']: readonly string[]): Promise<number> {
  const asked = async () => Number(await (await fetch(new URL('/pages-asked', first))).text())
  const [before, since] = [await asked(), performance.now()]
  await wait(READS_MS)
  return (1_000 * ((await asked()) - before)) / (performance.now() - since)
}

async function requests(binaries: string): Promise<void> {
  await world(binaries, SERVED, async (start, urls) => {
    const replicas: Replica[] = []
    let readsOfOne = 0
    for (let count = 1; count <= 3; count += 1) {
      replicas.push(await start())
      await settled(replicas, ({ total }) => total === SERVED)
      const serve = (amount: number) =>
        Promise.all(
          replicas.map(({ url }) =>
            autocannon({
              ...{ url: `${url}/mcp`, method: 'POST', headers: HEADERS, body: page(50) },
              ...{ connections: CONNECTIONS, amount: Math.round(amount / count) },
            }),
          ),
        )
      await serve(WARM_UP * count)
      const cpu = () => replicas.reduce((sum, one) => sum + cpuOf(one), 0)
      const before = cpu()
      await wait(IDLE_MS)
      const idle = (cpu() - before) / IDLE_MS
      const [loaded, since] = [cpu(), performance.now()]
      await serve(REQUESTS)
      const ms = performance.now() - since
      const each = (cpu() - loaded - idle * ms) / REQUESTS
      console.log(
        `${count} of them: ${((1_000 * REQUESTS) / ms).toFixed(0)} pages of 50 a second, ${(1_000 * each).toFixed(0)} µs of CPU each; ` +
          `idle, ${((1_000 * idle) / count).toFixed(0)} ms of CPU a second each, polling ${AGENTS} agents every second`,
      )
      if (count === 1) readsOfOne = await readsInASecond(urls)
    }
    report({
      what: 'three processes: how often agents are asked for pages, against one process',
      ...{ measured: (await readsInASecond(urls)) / readsOfOne, unit: 'x', bar: { atMost: 1.05 } },
    })
  })
}

async function changes(binaries: string, signals: number): Promise<void> {
  await world(binaries, signals, async (start, urls, url) => {
    const database = new pg.Client({ connectionString: url })
    database.on('error', () => {}) // the server ends before it when the measurement breaks
    await database.connect()
    const taken = async () => {
      const { rows } = await database.query<{ pieces: string; log: string }>(
        `select coalesce(sum(octet_length(bytes)), 0) as pieces, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as log from pieces`,
      )
      return { pieces: Number(rows[0]?.pieces) / MB, log: Number(rows[0]?.log) / MB }
    }
    const names = async () =>
      (await database.query<{ name: string }>('select name from pieces')).rows.map(({ name }) => name)
    /** Seconds that reading the pieces which came since takes, with nothing but the database's client. */
    const readingSince = async (before: readonly string[]): Promise<Limit> => {
      const known = new Set(before)
      const added = (await names()).filter((name) => !known.has(name))
      const startedAt = performance.now()
      for (const name of added) await database.query('select bytes from pieces where name = $1', [name])
      const is = (performance.now() - startedAt) / 1_000
      return { is, of: 'reading the same pieces from PostgreSQL, one after the other, and nothing else' }
    }
    const grown = async (before: Awaited<ReturnType<typeof taken>>) => {
      const now = await taken()
      return `${(now.pieces - before.pieces).toFixed(1)} MB of pieces, ${(now.log - before.log).toFixed(1)} MB in PostgreSQL's log`
    }
    await (await openStore({ url, now: Date.now, onProblem: () => {} })).close() // the tables are there
    const empty = await taken()
    const begunAt = Date.now()
    const first = await start()
    const [builtAt = 0] = await settled([first], ({ total }) => total === signals)
    console.log(
      `${signals} signals, first read: served after ${((builtAt - begunAt) / 1_000).toFixed(1)} s, ${await grown(empty)}`,
    )
    const joinedAt = Date.now()
    const replicas = [first, await start()]
    const [, readyAt = 0] = await settled(replicas, ({ total }) => total === signals)
    console.log(
      `${signals} signals, a second process served them after ${((readyAt - joinedAt) / 1_000).toFixed(1)} s`,
    )

    /** Resolves with the seconds until nothing more of what was read first is written down. */
    async function written(): Promise<number> {
      const startedAt = performance.now()
      for (let [pieces, at] = [(await taken()).pieces, startedAt]; performance.now() - at < STILL_MS; ) {
        await wait(TAKEN_EVERY_MS)
        const now = await taken()
        if (now.pieces !== pieces) [pieces, at] = [now.pieces, performance.now()]
      }
      return (performance.now() - startedAt - STILL_MS) / 1_000
    }

    /** At `count` agents, every so-manieth row. */
    async function change(what: string, count: number, every: number): Promise<void> {
      const [before, held] = [await taken(), await names()]
      const old = (await see(first)).version
      const changed = urls.slice(0, count)
      const since = Date.now()
      for (const one of changed) await fetch(new URL(`/change?every=${every}`, one), { method: 'POST' })
      const at = await settled(replicas, ({ version }) => version !== old)
      const walks = await Promise.all(
        changed.map(async (one) => {
          const walked = (await (await fetch(new URL('/walked', one))).json()) as { endedAt: number }
          return walked.endedAt
        }),
      )
      const readAt = Math.max(since, ...walks)
      const [built = 0, read = 0] = at.map((one) => one - readAt).sort((a, b) => a - b)
      console.log(
        `${signals} signals, ${what} of the prices changed: ${built} ms after the last page it was served by one, ` +
          `after ${read} ms by both; ${await grown(before)}`,
      )
      const changedMB = (await taken()).pieces - before.pieces
      report({
        what: `${signals} signals, ${what} of the prices changed: on the other process after its builder has it`,
        ...{ measured: (read - built) / 1_000, unit: 's' },
        bar: { atMost: Number((1 + changedMB / 100).toFixed(2)) }, // a second, and one for each 100 MB
        limit: await readingSince(held),
      })
    }

    console.log(
      `${signals} signals, all is written down ${(await written()).toFixed(1)} s later, ${await grown(empty)}`,
    )
    await change('0.1 %', 1, 50)
    await change('1 %', 1, 5)
    await change('100 %', AGENTS, 1)
    await database.end()
  })
}

const binaries = postgresBinaries()
if (binaries) {
  await requests(binaries)
  for (const signals of SIZES) await changes(binaries, signals)
} else console.log('skipped: no PostgreSQL on this machine (pg_config does not name its binaries)')
process.exit()
