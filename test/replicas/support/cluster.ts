/**
 * Replicas as they are run: real `tributary serve` processes with one file, clocks an hour apart, on a PostgreSQL of their own
 * behind a line that can be cut, over agents that can be out of reach, behind a balancer that knows nothing of all that.
 */
import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../../src/store/store.js'
import { type Postgres, startPostgres } from '../../store/support/postgres.js'
import { type Running, startCommand } from '../../support/command.js'
import { OWN_ACCOUNT, startAgents } from './agents.js'
import { ask, type Said } from './asking.js'
import { startBalancer } from './balancer.js'
import { ACCOUNT, TOKENS } from './crowd.js'
import { watchFence } from './fence.js'
import { type LineState, startLine } from './line.js'

const HOUR_MS = 3_600_000
const AHEAD = [0, HOUR_MS, -HOUR_MS]
const DISPLACED = new URL('./displaced.js', import.meta.url).href
const KEY = 'a storage key of the tests, long enough'

type ClusterOptions = {
  binaries: string
  replicas: number
  agents: readonly string[]
  /** Rows of each agent. */
  rows: number
  /** Beyond this a process is ended, whatever it does, ms. */
  longestMs: number
  rateLimit?: { per_second: number; burst: number }
  /** Settings in the place of those that replicas have otherwise; given the url of the balancer. */
  more?: (url: string) => object
}

export type Replica = {
  name: string
  address: string
  url(): string
  isRunning(): boolean
  /** The version of each agent's rows that it serves now, asked past the balancer; none of those that it does not tell. */
  served(): Promise<Map<string, number>>
  /** Resolves when it serves; it is started again until it does. */
  start(): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Its own file differs from the others' in so much from now on, and it is told to read it. */
  reload(more: object): Promise<void>
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>
  /** What it said so far, all its lives together. */
  log(): string
}

export async function startCluster(options: ClusterOptions) {
  const { binaries, replicas: count, rows, longestMs, rateLimit } = options
  const folder = await mkdtemp(join(tmpdir(), 'tributary-replicas-'))
  const fileOf = (name: string) => join(folder, `${name}.json`)
  const postgres: Postgres = await startPostgres(binaries)
  await (await openStore({ url: postgres.url, now: Date.now, onProblem: () => {} })).close()
  const fence = await watchFence(postgres.url)
  const line = await startLine(postgres.port)
  const agents = await startAgents(options.agents, rows)
  const ports = () => replicas.filter((one) => one.isRunning()).map((one) => Number(new URL(one.url()).port))
  const balancer = await startBalancer(ports)
  const key = (id: keyof typeof TOKENS, more: object = {}) => ({
    ...{ id, token_sha256: hash('sha256', TOKENS[id], 'hex'), ...more },
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  })
  let reloads = 0
  let isClosed = false

  function configWith(more: object): string {
    return JSON.stringify({
      listen: { port: 0, public_url: balancer.url },
      upstreams: options.agents.map((id) => ({ id, url: agents.urlOf(id), protocol: 'mcp' })),
      defaults: { refresh: '1s', timeout: `${5 + (reloads % 2)}s` },
      authorization: { policy: 'observe' },
      egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
      callers: {
        keys: [
          key('walker'),
          key('briefer'),
          key('buyer'),
          key('counted'),
          key('reader', { accounts: { [ACCOUNT]: { a: { account_id: OWN_ACCOUNT } } } }),
        ],
        ...(rateLimit && { rate_limit: rateLimit }),
      },
      storage: { url: `postgres://tributary@127.0.0.1:${line.port}/postgres`, key: KEY },
      ...options.more?.(balancer.url),
      ...more,
    })
  }

  /** Replaces the files of all, which say the same; each sees it by itself. */
  async function configure(): Promise<void> {
    const text = configWith({})
    reloads += 1
    for (const { name } of replicas) await writeFile(fileOf(name), text)
  }

  function replicaAt(at: number): Replica {
    const name = `replica-${at}`
    const address = `127.0.0.${11 + at}`
    let running: Running | undefined
    let url = ''
    let said = ''
    return {
      ...{ name, address, url: () => url, log: () => said },
      isRunning: () => url !== '',
      async served() {
        const page = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
        const versions = new Map<string, number>()
        let cursor: string | undefined
        do {
          const pagination = { ...page.pagination, ...(cursor && { cursor }) }
          const said = await ask(url, TOKENS.walker, 'get_signals', { ...page, pagination }).catch(
            (): Said => ({}),
          )
          for (const { name } of said.signals ?? []) {
            const [, agent = '', version] = / of (\w+) (\d+)$/.exec(name) ?? []
            versions.set(agent, Number(version))
          }
          cursor = said.pagination?.cursor
        } while (cursor && versions.size < options.agents.length)
        return versions
      },
      async start() {
        const environment = {
          NODE_OPTIONS: `--import=${DISPLACED}`,
          ...{ TEST_ADDRESS: address, TEST_AHEAD_MS: String(AHEAD[at % AHEAD.length]), PGAPPNAME: name },
        }
        for (let found = ''; !found; ) {
          const started = startCommand(['serve', '--config', fileOf(name)], environment, { longestMs })
          running = started
          started.process.stderr.on('data', (text: string) => {
            said += text
          })
          // It ends where the database is away; whoever runs it starts it again.
          const line = await started
            .printed(/in one feed at (http:\/\/127\.0\.0\.1:\d+)/)
            .catch(() => undefined)
          found = line?.[1] ?? ''
          if (isClosed) return
          url = found
        }
      },
      signal: (signal) => void running?.process.kill(signal),
      async reload(more) {
        await writeFile(fileOf(name), configWith(more))
        running?.process.kill('SIGHUP')
      },
      async kill() {
        url = ''
        running?.process.kill('SIGKILL')
        await running?.finished
      },
    }
  }

  const replicas = Array.from({ length: count }, (_, at) => replicaAt(at))
  await configure()

  return {
    ...{ replicas, agents, balancer, postgres, fence, configure },
    /** Between one replica and the database. */
    lineOf: ({ address }: Replica, state: LineState) => line.set(address, state),
    async close(): Promise<void> {
      isClosed = true
      for (const one of replicas) await one.kill()
      await balancer.close()
      await line.close()
      await agents.close()
      await postgres.remove()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>
