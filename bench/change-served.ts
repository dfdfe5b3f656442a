/**
 * The same over HTTP, with everything that a server does beside: twenty agents in a child process, one of which changes one
 * price, and a client in another, so that this one does nothing but serve. Timed from the last page of its walk, and from the
 * first, to the first answer of ours that has the new price. `node dist/bench/change-served.js [signals...]`; the
 * search index is rebuilt and slices are saved meanwhile.
 */
import { fork } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { startFederation } from '../src/composition/federation.js'
import { parseConfig } from '../src/config/load.js'
import { systemClock } from '../src/net/clock.js'
import { givenNumbers } from '../test/support/given.js'
import { startAgents } from './agents.js'
import type { Found, Wanted } from './change-client.js'
import { watchIdleThread } from './idle-thread.js'
import { ours } from './ours.js'
import { type Limit, report } from './report.js'

const TOKEN = 'bench'
const TOKEN_SHA256 = hash('sha256', TOKEN, 'hex')
const SIZES = givenNumbers([1_000, 100_000, 1_000_000])
const AGENTS = 20
const RUNS = 3
const CLIENT = fileURLToPath(new URL('change-client.js', import.meta.url))

async function served(signals: number): Promise<void> {
  const { child, urls } = await startAgents(AGENTS, signals / AGENTS)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-change-'))
  const config = {
    listen: { port: 0 },
    upstreams: urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' })),
    defaults: { refresh: '1s' },
    authorization: { policy: 'lenient' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata', keys: [{ id: 'bench', token_sha256: TOKEN_SHA256 }] },
    storage: { url: `file:${folder}` },
  }
  const parsed = (changes: object) => parseConfig('bench', JSON.stringify({ ...config, ...changes }), {})
  const federation = await startFederation({
    config: parsed({}),
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: 'silent' }),
  })
  const client = ours(fork(CLIENT, [federation.url, TOKEN]))
  const gone = once(client, 'exit').then(() => {
    throw new Error('the client ended')
  })
  gone.catch(() => {}) // when it is not awaited, the client was ended below
  async function until(wanted: Wanted): Promise<Found> {
    client.send(wanted)
    const [found] = (await Promise.race([once(client, 'message'), gone])) as [Found]
    return found
  }
  /** The longest stop, ms, from a changed configuration until its generation is served: an upstream leaves, a policy changes. */
  async function reloading(): Promise<{ measured: number; limit: Limit }> {
    const idle = await watchIdleThread()
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const upstreams = config.upstreams.slice(1)
    federation.apply(parsed({ upstreams, authorization: { policy: 'observe' } }))
    const left = signals - signals / AGENTS
    await until({ total: left })
    delay.disable()
    return { measured: delay.max / 1e6, limit: await idle() }
  }
  try {
    await federation.ready
    let { version } = await until({ total: signals })
    const [first = ''] = urls
    const runs: { sinceLast: number; sinceFirst: number }[] = []
    let longest = 0
    const idle = await watchIdleThread()
    for (let run = 0; run < RUNS; run += 1) {
      const delay = monitorEventLoopDelay({ resolution: 1 })
      delay.enable()
      await fetch(new URL('/change', first), { method: 'POST' })
      const found = await until({ notPriced: version })
      delay.disable()
      version = found.version
      longest = Math.max(longest, delay.max / 1e6)
      const { beganAt, endedAt } = (await (await fetch(new URL('/walked', first))).json()) as {
        beganAt: number
        endedAt: number
      }
      runs.push({ sinceLast: found.at - endedAt, sinceFirst: found.at - beganAt })
    }
    const limit = await idle()
    const middle = (of: (run: (typeof runs)[number]) => number) =>
      runs.map(of).sort((a, b) => a - b)[RUNS >> 1] as number
    const walked = `from the first page of its upstream (${signals / AGENTS} rows) ${middle(({ sinceFirst }) => sinceFirst)} ms`
    console.log(`${signals} signals, one price changed: ${walked}`)
    report({
      what: `one price changed among ${signals}, over HTTP: served after the last page of its upstream`,
      ...{ measured: middle(({ sinceLast }) => sinceLast), unit: 'ms', bar: { atMost: 1_000 } },
    })
    report({
      what: `longest stop of the serving thread meanwhile, ${signals} signals`,
      ...{ measured: longest, unit: 'ms', bar: { atMost: 50 }, limit },
    })
    report({
      what: `longest stop of the serving thread while the configuration is reloaded, ${signals} signals`,
      ...{ ...(await reloading()), unit: 'ms', bar: { atMost: 50 } },
    })
  } finally {
    client.kill()
    await federation.close()
    child.kill()
    await rm(folder, { recursive: true, force: true })
  }
}

for (const signals of SIZES) await served(signals)
process.exit()
