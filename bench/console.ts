/**
 * The console's pages over HTTP at a million signals: what each keystroke of a search, each order, each facet and each
 * page of an operator takes, the first time it is asked of a snapshot, and how long the serving thread stops for it.
 * `node dist/bench/console.js [signals]`.
 */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pino } from 'pino'
import { startFederation } from '../src/composition/federation.js'
import { parseConfig } from '../src/config/load.js'
import { systemClock } from '../src/net/clock.js'
import { givenNumber } from '../test/support/given.js'
import { startAgents } from './agents.js'
import { report, rounded } from './report.js'

const TOKEN = 'bench'
const SIGNALS = givenNumber(0, 1_000_000)
const AGENTS = 20
const TYPED = 'intenders 77'
const ORDERS = ['price', 'price_desc', 'coverage', 'name', 'provider', 'sellers']
const CHOICES = [
  '',
  'provider=provider7.example',
  'upstream=agent-3',
  'destination=platform:the-trade-desk',
  'max_cpm=5',
  'value_type=binary',
]
const OPERATORS = ['overview', 'upstreams', 'providers', 'callers', 'activity', 'audit', 'jobs']

const agents = await startAgents(AGENTS, SIGNALS / AGENTS)
const folder = await mkdtemp(join(tmpdir(), 'tributary-console-'))
const config = {
  listen: { port: 0 },
  upstreams: agents.urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' })),
  defaults: { refresh: '1h' },
  authorization: { policy: 'lenient' },
  egress: { allow_networks: ['127.0.0.0/8'] },
  callers: { keys: [{ id: 'bench', token_sha256: hash('sha256', TOKEN, 'hex'), role: 'operator' }] },
  storage: { url: `file:${folder}` },
}
const federation = await startFederation({
  config: parseConfig('bench', JSON.stringify(config), {}),
  version: '0.0.0',
  clock: systemClock,
  random: Math.random,
  log: pino({ level: 'silent' }),
})

async function get(path: string): Promise<{ total?: number }> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const response = await fetch(`${federation.url}/console/api/${path}`, { headers })
  const text = await response.text()
  if (!response.ok) return {}
  return { total: Number(/"total":(\d+)/.exec(text)?.[1] ?? 0) }
}

type Slowest = { ms: number; path: string; stop: number; stoppedBy: string }

/** Asks for one group after the other, as a page does: what stands together is asked at once. */
async function asked(groups: readonly (readonly string[])[]): Promise<Slowest> {
  const slowest: Slowest = { ms: 0, path: '', stop: 0, stoppedBy: '' }
  for (const group of groups) {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const startedAt = performance.now()
    await Promise.all(group.map(get))
    const ms = performance.now() - startedAt
    delay.disable()
    const [path, stop] = [group.join(' + '), delay.max / 1e6]
    if (ms > slowest.ms) Object.assign(slowest, { ms, path })
    if (stop > slowest.stop) Object.assign(slowest, { stop, stoppedBy: path })
  }
  return slowest
}

function told(what: string, { ms, path, stop, stoppedBy }: Slowest, atMost: number): void {
  console.log(
    `${what}: slowest ${path} (${rounded(ms)} ms), longest stop by ${stoppedBy} (${rounded(stop)} ms)`,
  )
  report({ what: `${what}, slowest answer, ${SIGNALS} signals`, measured: ms, unit: 'ms', bar: { atMost } })
  report({
    what: `longest stop of the serving thread meanwhile`,
    ...{ measured: stop, unit: 'ms', bar: { atMost: 50 } },
  })
}

const both = (query: string) => [`signals?${query}`, `facets?${query}`]

try {
  await federation.ready
  for (const end = Date.now() + 300_000; (await get('signals?q=intenders&limit=1')).total === undefined; ) {
    if (Date.now() > end) throw new Error('never indexed')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  for (const end = Date.now() + 300_000; (await get('signals?limit=1')).total !== SIGNALS; ) {
    if (Date.now() > end) throw new Error('never served')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await new Promise((resolve) => setTimeout(resolve, 5_000)) // what is saved and indexed after the start
  const keystrokes = Array.from({ length: TYPED.length }, (_, at) =>
    both(`q=${encodeURIComponent(TYPED.slice(0, at + 1))}`),
  )
  told('console: each keystroke of a search', await asked(keystrokes), 500)
  told('console: each choice of a facet', await asked(CHOICES.map(both)), 1_000)
  told('console: each order of all rows', await asked(ORDERS.map((sort) => [`signals?sort=${sort}`])), 5_000)
  told("console: each operator's page", await asked(OPERATORS.map((path) => [path])), 1_000)
} finally {
  await federation.close()
  agents.child.kill()
  await rm(folder, { recursive: true, force: true })
}
process.exit()
