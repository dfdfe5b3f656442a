/**
 * How soon a restarted Tributary serves what it held before: `serve` as a process of its own, from its start until
 * /readyz says so, with twenty upstreams and fifty providers behind it (docs/performance.md). `node
 * dist/bench/restart.js [signals ...]`.
 */
import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { givenNumbers } from '../test/support/given.js'
import { startAgents } from './agents.js'
import { freePort } from './free-port.js'
import { ours } from './ours.js'
import { startProviders } from './providers.js'
import { report, rounded } from './report.js'

const SIZES = givenNumbers([1_000, 100_000, 1_000_000])
const AGENTS = 20
const RUNS = 3
const BOUND_MS = 300_000
const FIRST_LOOK_MS = 200 // a first start takes seconds of both cores

const beside = (name: string) => fileURLToPath(new URL(name, import.meta.url))

async function isReady(url: string, signals: number): Promise<boolean> {
  const answer = await fetch(`${url}/readyz`).catch(() => undefined)
  if (answer?.status !== 200) return false
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
  const params = { name: 'get_signals', arguments: page }
  const reply = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  })
  return (await reply.text()).includes(`"total_count":${signals}`)
}

/** Starts `serve` and gives the seconds until it serves that many signals; it is asked every `lookMs`. */
async function serve(config: string, url: string, signals: number, lookMs = 5) {
  const startedAt = performance.now()
  const child = ours(
    spawn(process.execPath, [beside('../program/main.js'), 'serve', '--config', config], {
      stdio: 'ignore',
    }),
  )
  while (!(await isReady(url, signals))) {
    if (child.exitCode !== null || performance.now() - startedAt > BOUND_MS)
      throw new Error('it never served')
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  }
  const seconds = (performance.now() - startedAt) / 1_000
  return {
    seconds,
    async stop() {
      const since = performance.now()
      child.kill('SIGTERM')
      await once(child, 'exit')
      return (performance.now() - since) / 1_000
    },
  }
}

/** Seconds to read every file of a folder and to hash it once, as whoever trusts a saved feed has to. */
async function readingSeconds(folder: string): Promise<number> {
  const startedAt = performance.now()
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  for (const file of files.filter((one) => one.isFile())) {
    hash('sha256', await readFile(join(file.parentPath, file.name)), 'hex')
  }
  return (performance.now() - startedAt) / 1_000
}

/** Seconds from the start of a process that only loads the packages that a server needs, to its end. */
async function importingSeconds(): Promise<number> {
  const packages = [
    'fastify',
    'undici',
    'pino',
    'libsql',
    'kysely',
    'ajv',
    'prom-client',
    'yaml',
    'lru-cache',
  ]
  const script = packages.map((name) => `import '${name}'`).join(';')
  const times: number[] = []
  for (let run = 0; run < RUNS; run += 1) {
    const startedAt = performance.now()
    const child = ours(
      spawn(process.execPath, ['--input-type=module', '--eval', script], {
        stdio: 'inherit',
        cwd: fileURLToPath(new URL('../..', import.meta.url)),
      }),
    )
    await once(child, 'exit')
    times.push((performance.now() - startedAt) / 1_000)
  }
  return times.sort((a, b) => a - b)[RUNS >> 1] as number
}

type Restart = { first: number; seconds: number; reading: number }

/** Seconds from the start of a process that held so many signals until it serves them. */
async function measure(signals: number): Promise<Restart> {
  const rows = signals / AGENTS
  const agents = await startAgents(signals > 0 ? AGENTS : 0, rows)
  const providers = await startProviders(agents.urls, rows)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-restart-'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const config = join(folder, 'config.json')
  await writeFile(
    config,
    JSON.stringify({
      listen: { port },
      upstreams: agents.urls.map((agent, at) => ({ id: `agent-${at}`, url: agent, protocol: 'mcp' })),
      defaults: { refresh: '1h' },
      egress: { allow_networks: ['127.0.0.0/8'], hosts: providers.hosts },
      callers: { anonymous: 'metadata' },
      storage: { url: `file:${join(folder, 'data')}` },
    }),
  )
  const cold = await serve(config, url, signals, FIRST_LOOK_MS)
  const stopped = await cold.stop()
  const restarts: number[] = []
  for (let run = 0; run < RUNS; run += 1) {
    const warm = await serve(config, url, signals)
    restarts.push(warm.seconds)
    await warm.stop()
  }
  const middle = restarts.sort((a, b) => a - b)[RUNS >> 1] as number
  console.log(
    `${signals} signals: first start ${rounded(cold.seconds)} s, stop ${rounded(stopped)} s, ` +
      `restart to served ${rounded(middle)} s (of ${restarts.map(rounded).join(', ')})`,
  )
  const reading = await readingSeconds(folder)
  agents.child.kill()
  providers.server.close()
  await rm(folder, { recursive: true, force: true })
  return { first: cold.seconds, seconds: middle, reading }
}

const base = await measure(0)
report({
  what: 'the start of a process with nothing on disk, to served',
  ...{ measured: base.seconds, unit: 's', bar: { atMost: 0.5 } },
  limit: { is: await importingSeconds(), of: 'a process that only loads the packages' },
})
for (const signals of SIZES) {
  const { first, seconds, reading } = await measure(signals)
  report({
    what: `first start with ${signals} signals at ${AGENTS} agents, until all are served`,
    ...{ measured: first, unit: 's' },
  })
  report({
    what: `restart to served with ${signals} signals on disk, beyond that start`,
    ...{ measured: seconds - base.seconds, unit: 's', bar: { atMost: 1 } },
    limit: { is: reading, of: 'reading the saved files and hashing them once, in one thread' },
  })
}
