/** Real provider domains for the tests of this room: HTTP servers on port 0, reached through the real way out. */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createProviders, type ProvidersOptions } from '../../src/authz/provider/providers.js'
import type { Clock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import type { Send } from '../../src/net/send.js'
import { openBlobFiles } from '../../src/store/blob-files.js'

export const HOUR = 3_600_000
export const DAY = 24 * HOUR
export const START = Date.parse('2026-03-01T00:00:00Z')

/** A clock that moves only when told; tasks that fall due run in order. */
export function createTestClock(start = START) {
  let now = start
  let tasks: { at: number; task: () => void }[] = []
  const clock: Clock = {
    now: () => now,
    after(ms, task) {
      const entry = { at: now + Math.max(0, ms), task }
      tasks.push(entry)
      return () => {
        tasks = tasks.filter((other) => other !== entry)
      }
    },
  }
  /** Moves time without running what falls due on the way. */
  const jump = (ms: number) => {
    now += ms
  }
  const runDue = () => {
    for (const { task } of tasks.filter(({ at }) => at <= now)) task()
    tasks = tasks.filter(({ at }) => at > now)
  }
  return { clock, jump, runDue }
}

type Page = {
  status?: number
  headers?: Record<string, string>
  body?: unknown
}

/** One server that plays every host; pages are keyed `host/path`, changed at will between requests. */
export async function createWeb() {
  const pages = new Map<string, Page | ((request: IncomingMessage, response: ServerResponse) => void)>()
  const requests: { page: string; headers: IncomingMessage['headers'] }[] = []
  const server = createServer((request, response) => {
    const page = `${request.headers.host}${request.url}`
    requests.push({ page, headers: request.headers })
    const answer = pages.get(page)
    if (typeof answer === 'function') return answer(request, response)
    const { status = 200, headers = {}, body } = answer ?? { status: 404 }
    const etag = headers.etag
    if (etag && request.headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end()
    const bytes = body instanceof Uint8Array || typeof body === 'string' ? body : JSON.stringify(body ?? null)
    response.writeHead(status, headers).end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    requests,
    page: (name: string, page: Page | ((request: IncomingMessage, response: ServerResponse) => void)) =>
      pages.set(name, page),
    gone: (name: string) => pages.delete(name),
    asked: (name: string) => requests.filter(({ page }) => page === name).length,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const HOSTS = ['p.example', 'www.p.example', 'q.example', 'cdn.example', 'cdn2.example', 'other.example']

type WorldSettings = {
  hosts?: readonly string[]
  /** Wraps the way out: what takes ten seconds in earnest is not waited for in a test. */
  hurry?: (send: Send) => Send
}

/** Providers over a web, a clock and a folder; `restart` keeps all three. */
export async function createWorld(settings: Partial<ProvidersOptions> & WorldSettings = {}) {
  const { hosts = HOSTS, hurry = (send) => send, ...overrides } = settings
  const web = await createWeb()
  const folder = await mkdtemp(join(tmpdir(), 'tributary-authz-'))
  const { clock, jump, runDue } = createTestClock()
  const egress = createEgress({
    policy: {
      allowHttp: false,
      allowNetworks: [],
      hosts: Object.fromEntries(hosts.map((host) => [host, web.origin])),
    },
  })
  const logged: { level: string; fields: object; message: string }[] = []
  const log = {
    info: (fields: object, message: string) => logged.push({ level: 'info', fields, message }),
    warn: (fields: object, message: string) => logged.push({ level: 'warn', fields, message }),
  }
  const open = async () =>
    createProviders({
      send: hurry(egress.send),
      blobs: await openBlobFiles({ folder, onDamage: (name, reason) => log.warn({ name }, reason) }),
      clock,
      refreshMs: HOUR,
      concurrency: 8,
      limits: () => ({ domainsPerUpstream: 10_000, bytes: 1024 ** 3 }),
      log,
      ...overrides,
    })
  let providers = await open()
  return {
    web,
    clock,
    jump,
    runDue,
    logged,
    folder,
    providers: () => providers,
    async restart() {
      await providers.close()
      providers = await open()
      return providers
    },
    async close() {
      await providers.close()
      await egress.close()
      await web.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Domains as one upstream names them. */
export function named(domains: readonly string[], upstream = 'https://agent.example/mcp') {
  return new Map([[upstream, domains]])
}

export const WELL_KNOWN = '/.well-known/adagents.json'
export const AGENT = 'https://agent.example/mcp'

/** A document that grants `ids` to AGENT, all published. */
export function granting(ids: readonly string[], more: Record<string, unknown> = {}) {
  return {
    signals: ['s1', 's2', 's3'].map((id) => ({ id, name: id, value_type: 'binary', tags: [`t_${id}`] })),
    authorized_agents: ids.length
      ? [{ url: AGENT, authorized_for: 'all', authorization_type: 'signal_ids', signal_ids: ids }]
      : [],
    ...more,
  }
}
