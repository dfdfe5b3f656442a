/**
 * Activations under load, with many finished ones in the tables (docs/performance.md): how many of those offered are
 * acknowledged and when, how long the event loop stops, and what reads meanwhile take against reads on an idle server; on
 * both databases. `node dist/bench/activation.js [seconds] [finished calls] [a second]`.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { hash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { postgresBinaries, startPostgres } from '../test/store/support/postgres.js'
import { givenNumber } from '../test/support/given.js'
import { addFinishedCalls } from './finished-calls.js'
import { offer, percentile } from './offer.js'
import { ours } from './ours.js'

const [SECONDS, FINISHED, RATE] = [givenNumber(0, 60), givenNumber(1, 1_000_000), givenNumber(2, 1_000)]
const IDLE_S = 5
const READS_A_SECOND = 100
const WARM_S = 5 // of both, at a tenth of the rate: code that is not compiled yet takes ten times as long
const CONNECTIONS = 128
const TOKEN = 'a-buyer-key'
const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }
const STOP_BAR_MS = 50
const READ_BAR = 2

type Fields = ReturnType<typeof JSON.parse>

const PROGRAM = fileURLToPath(new URL('./activation-server.js', import.meta.url))

async function told(child: ChildProcess): Promise<Fields> {
  const end = new AbortController()
  const gone = once(child, 'exit', { signal: end.signal }).then(([code]) => {
    throw new Error(`${child.spawnargs.join(' ')} ended with ${code}`)
  })
  try {
    const [message] = await Promise.race([once(child, 'message', { signal: end.signal }), gone])
    return message
  } finally {
    end.abort()
    gone.catch(() => {}) // it was listened for long enough
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, 'exit')
  child.kill(signal)
  await gone
}

/** A Tributary in a process of its own. */
async function startTributary(configuration: object) {
  const began = performance.now()
  const child = ours(fork(PROGRAM))
  child.send(JSON.stringify(configuration))
  const { url } = await told(child)
  const startMs = performance.now() - began
  const pools = {
    reads: new Pool(url, { connections: CONNECTIONS }),
    writes: new Pool(url, { connections: CONNECTIONS }),
  }
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${TOKEN}`,
    'mcp-protocol-version': '2025-06-18',
  }

  /** What reads takes connections of its own: it does not wait behind activations before it is sent. */
  async function call(name: string, input: object): Promise<Fields> {
    const pool = name === 'get_signals' ? pools.reads : pools.writes
    const params = { name, arguments: input }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
    const answer = await pool.request({ path: '/mcp', method: 'POST', headers, body })
    const text = await answer.body.text()
    return answer.statusCode === 200 ? JSON.parse(text).result.structuredContent : { status: 'refused' }
  }

  return {
    startMs,
    call,
    async usage(): Promise<{ stopMs: number; cpuMs: number }> {
      child.send('stop')
      return await told(child)
    },
    async kill(): Promise<void> {
      await Promise.all([pools.reads.destroy(), pools.writes.destroy()])
      await ended(child, 'SIGKILL')
    },
  }
}
type Tributary = Awaited<ReturnType<typeof startTributary>>

const read = ({ call }: Tributary) =>
  call('get_signals', { discovery_mode: 'wholesale', pagination: { max_results: 50 } })

async function choicesOf({ call }: Tributary): Promise<object[]> {
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 100 }, destinations: [TRADE_DESK] }
  const { signals } = await call('get_signals', page)
  return signals.flatMap(({ signal_agent_segment_id, pricing_options: [option] = [] }: Fields) =>
    option ? [{ signal_agent_segment_id, pricing_option_id: option.pricing_option_id }] : [],
  )
}

const activate = ({ call }: Tributary, choice: object | undefined) =>
  call('activate_signal', { ...choice, destinations: [TRADE_DESK], idempotency_key: randomUUID() })

/** One database; false when a bar is missed. */
async function measure(
  name: string,
  storageUrl: string,
  sandbox: { url: string; hosts: object },
): Promise<boolean> {
  const configuration = {
    listen: { port: 0 },
    upstreams: [{ id: 'northwind', url: sandbox.url }],
    egress: { hosts: sandbox.hosts },
    callers: {
      keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex'), destinations: [TRADE_DESK] }],
      rate_limit: { per_second: 1e6, burst: 1_000_000 },
    },
    storage: { url: storageUrl, key: 'a storage key of the benchmark, long enough' },
  }
  const first = await startTributary(configuration)
  const choices = await choicesOf(first)
  for (const choice of choices) await activate(first, choice)
  await first.kill()
  const fillS = (await addFinishedCalls(storageUrl, FINISHED)) / 1_000

  const tributary = await startTributary(configuration)
  let next = 0
  const write = () => activate(tributary, choices[next++ % choices.length])
  await Promise.all([offer(RATE / 10, WARM_S, write), offer(READS_A_SECOND, WARM_S, () => read(tributary))])
  await tributary.usage()
  const idle = await offer(READS_A_SECOND, IDLE_S, () => read(tributary))
  const before = await tributary.usage()
  const [written, meanwhile] = await Promise.all([
    offer(RATE, SECONDS, write),
    offer(READS_A_SECOND, SECONDS, () => read(tributary)),
  ])
  const after = await tributary.usage()
  await tributary.kill()

  const lastS = Math.max(...written.ms) / 1_000
  const p99 = { idle: percentile(idle.ms, 0.99), meanwhile: percentile(meanwhile.ms, 0.99) }
  const ms = (value: number) => `${value.toFixed(1)} ms`
  console.log(
    `${name}: ${FINISHED} finished calls over ${choices.length} segments, written in ${fillS.toFixed(0)} s`,
  )
  console.log(`  start after a kill, until served: ${(tributary.startMs / 1_000).toFixed(1)} s`)
  console.log(
    `  ${RATE} activations/s for ${SECONDS} s: ${written.done} acknowledged, ${written.refused} refused with when to repeat, ` +
      `${written.failed} failed, ${written.sent - written.ms.length} unanswered; ` +
      `${(written.done / Math.max(SECONDS, lastS)).toFixed(0)} acknowledged/s`,
  )
  console.log(
    `  answer p50 ${ms(percentile(written.ms, 0.5))}, p99 ${ms(percentile(written.ms, 0.99))}, last ${ms(lastS * 1_000)}`,
  )
  const cpuMs = (after.cpuMs - before.cpuMs) / Math.max(1, written.done)
  console.log(`  CPU of the server ${ms(cpuMs)} for each acknowledged, its share of the reads included`)
  console.log(
    `  longest stop of the loop ${ms(after.stopMs)} (idle ${ms(before.stopMs)}), bar ${STOP_BAR_MS} ms`,
  )
  console.log(
    `  reads p99 ${ms(p99.meanwhile)}, idle ${ms(p99.idle)}: ${(p99.meanwhile / p99.idle).toFixed(1)}x, bar ${READ_BAR}x; ` +
      `${meanwhile.done} of ${meanwhile.sent} served`,
  )
  return after.stopMs <= STOP_BAR_MS && p99.meanwhile <= READ_BAR * p99.idle && written.done === written.sent
}

const agents = ours(fork(PROGRAM, ['agents']))
const sandbox = await told(agents)
const folder = await mkdtemp(join(tmpdir(), 'tributary-activation-'))
const results = [await measure('SQLite', `file:${folder}`, sandbox)]
await rm(folder, { recursive: true, force: true })
const binaries = postgresBinaries()
if (binaries) {
  const postgres = await startPostgres(binaries)
  results.push(await measure('PostgreSQL', postgres.url, sandbox))
  await postgres.remove()
} else console.log('PostgreSQL: skipped, pg_config does not name its binaries')
await ended(agents, 'SIGTERM')
if (results.includes(false)) console.log('a bar was missed')
