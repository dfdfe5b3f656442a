/**
 * What a buyer would otherwise do: ask twenty agents itself, with the protocol's own client, for a page of 50 each. Beside
 * it one question to ours, which holds all of them, with the same client. Needs the client, which `npm run conformance`
 * installs; without it there is only a line that says so.
 */
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { startFederation } from '../src/composition/federation.js'
import { parseConfig } from '../src/config/load.js'
import { systemClock } from '../src/net/clock.js'
import { startAgents } from './agents.js'
import { middle, report, rounded } from './report.js'

const AGENTS = 20
const ROWS_EACH = 500
const RUNS = 20
/** Asked before anything is measured: the engine has not compiled all of a server, and of the client, before. */
const WARM_QUESTIONS = 1_000
const BOUND_MS = 60_000
const TOKEN = 'bench'
const CONFORMANCE = new URL('../../conformance/package.json', import.meta.url)
const PAGE = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }

type Client = {
  executeTask(task: string, args: object): Promise<{ status: string; data?: { signals?: unknown[] } }>
}
type Sdk = { SingleAgentClient: new (agent: object) => Client }

/** Ms from the question until everybody has answered, and ms of this process's CPU. */
async function measured(clients: readonly Client[]): Promise<{ ms: number; cpuMs: number }> {
  const took: { ms: number; cpuMs: number }[] = []
  const warm = WARM_QUESTIONS / clients.length
  for (let run = 0; run < warm + RUNS; run += 1) {
    const cpu = process.cpuUsage()
    const since = performance.now()
    const answers = await Promise.all(clients.map((client) => client.executeTask('get_signals', PAGE)))
    const ms = performance.now() - since
    const { user, system } = process.cpuUsage(cpu)
    const other = answers.find(({ data }) => data?.signals?.length !== 50)
    if (other) throw new Error(`no page of 50: ${JSON.stringify(other).slice(0, 400)}`)
    if (run >= warm) took.push({ ms, cpuMs: (user + system) / 1_000 })
  }
  return { ms: middle(took.map(({ ms }) => ms)), cpuMs: middle(took.map(({ cpuMs }) => cpuMs)) }
}

async function compare({ SingleAgentClient }: Sdk): Promise<void> {
  const { child, urls } = await startAgents(AGENTS, ROWS_EACH)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-direct-'))
  const config = {
    listen: { port: 0 },
    upstreams: urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' })),
    authorization: { policy: 'lenient' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { keys: [{ id: 'bench', token_sha256: hash('sha256', TOKEN, 'hex') }] },
    storage: { url: `file:${folder}` },
  }
  const federation = await startFederation({
    config: parseConfig('bench', JSON.stringify(config), {}),
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: 'silent' }),
  })
  try {
    await federation.ready
    for (const end = Date.now() + BOUND_MS; federation.feed.current()?.count !== AGENTS * ROWS_EACH; ) {
      if (Date.now() > end) throw new Error('the feed is not whole')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const client = (id: string, url: string, token?: string) =>
      new SingleAgentClient({
        ...{ id, name: id, agent_uri: url, protocol: 'mcp' },
        ...(token && { auth_token: token }),
      })
    const direct = await measured(urls.map((url, at) => client(`agent-${at}`, url)))
    const ours = await measured([client('tributary', `${federation.url}/mcp`, TOKEN)])
    const times = (one: typeof ours) => `${rounded(one.ms)} ms, ${rounded(one.cpuMs)} ms of CPU`
    console.log(
      `a page of 50 from each of ${AGENTS} agents: ${times(direct)}; one page of ours: ${times(ours)}`,
    )
    const what = `a page of 50 from each of ${AGENTS} agents with the protocol's client, against one of ours`
    report({ what, measured: direct.ms / ours.ms, unit: 'x' })
  } finally {
    await federation.close()
    child.kill()
    await rm(folder, { recursive: true, force: true })
  }
}

console.warn = () => {} // the client tells of each row that lacks the older form of its id

const isThere = existsSync(new URL('node_modules/@adcp/sdk', CONFORMANCE))
if (isThere) await compare(createRequire(CONFORMANCE)('@adcp/sdk') as Sdk)
else console.log("not measured: the protocol's client is not installed (npm ci --prefix conformance)")
process.exit()
