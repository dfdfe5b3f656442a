/** A registry with agents of several types, badges and metrics, and a Tributary that reads it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Federation, startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { type Clock, systemClock } from '../../src/net/clock.js'

type Test = { teardown(task: () => unknown): void }
type Record_ = Record<string, unknown> & { url: string; type?: string }

/** One agent as a registry lists it, every sub-object included. */
export function agent(type: string, name: string, more: Record<string, unknown> = {}): Record_ {
  return {
    name,
    url: `https://${name}.example/mcp`,
    type,
    protocol: 'mcp',
    description: `What ${name} does`,
    mcp_endpoint: `https://${name}.example/mcp`,
    added_date: '2026-01-01',
    contact: { name, email: `hello@${name}.example`, website: `https://${name}.example` },
    member: { slug: name, display_name: name },
    health: { online: true, checked_at: '2026-11-01T00:00:00Z' },
    stats: { property_count: 3 },
    capabilities: { tools_count: 0, tools: [] },
    publisher_domains: [],
    property_summary: { total_count: 0 },
    compliance: { verified: false, verified_roles: [] },
    ...more,
  }
}

export function measuring(name: string, metrics: object[], more: Record<string, unknown> = {}): Record_ {
  const capabilities = { tools_count: 0, tools: [], measurement_capabilities: { metrics } }
  return agent('measurement', name, { capabilities, ...more })
}

export type TestRegistry = {
  url: string
  requests: { query: URLSearchParams; headers: Record<string, unknown> }[]
  records: Record_[]
  /** Axes that the badge of an agent covers, by name; undefined: a registry that ignores questions about badges. */
  badges: Record<string, readonly string[]> | undefined
  failing: boolean
}

const PARTS: Record<string, readonly string[]> = {
  health: ['health', 'stats'],
  capabilities: ['capabilities'],
  properties: ['publisher_domains', 'property_summary'],
  compliance: ['compliance'],
}

/** The record without the parts that no flag asked for. */
function asked(record: Record_, query: URLSearchParams): Record_ {
  const hidden = Object.entries(PARTS).flatMap(([flag, parts]) => (query.get(flag) === 'true' ? [] : parts))
  return Object.fromEntries(Object.entries(record).filter(([name]) => !hidden.includes(name))) as Record_
}

/** `GET /api/registry/agents` on a port of its own: type, badge filters, flags. */
export async function startRegistry(t: Test, records: Record_[]): Promise<TestRegistry> {
  const registry: TestRegistry = { url: '', requests: [], records, badges: {}, failing: false }
  const server = createServer((request, response) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://localhost')
    if (registry.failing || pathname !== '/api/registry/agents') {
      response.writeHead(503).end()
      return
    }
    registry.requests.push({ query, headers: request.headers })
    const type = query.get('type')
    const axes = query.getAll('verification_mode')
    const agents = registry.records.filter((record) => {
      if (type && record.type !== type) return false
      if (!registry.badges) return true
      const covered = registry.badges[String(record.name)]
      if (query.get('verified') === 'true' && !covered) return false
      return axes.every((axis) => covered?.includes(axis))
    })
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({ agents: agents.map((record) => asked(record, query)), count: agents.length }),
    )
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  t.teardown(() => server.close().closeAllConnections())
  registry.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return registry
}

/** A Tributary on a free port and a folder of its own, its feed not open yet. `openAfterMs`: whom it waits for no longer. */
export async function openTributary(
  t: Test,
  extra: object,
  clock: Clock = systemClock,
  openAfterMs = 60_000,
): Promise<Federation> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-operations-'))
  const base = {
    listen: { port: 0 },
    defaults: { refresh: '1m', timeout: '60s' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata', keys: [] },
    storage: { url: `file:${folder}` },
  }
  const federation = await startFederation({
    config: parseConfig('test', JSON.stringify({ ...base, ...extra }), {}),
    version: '0.0.0',
    clock,
    openAfterMs,
    random: Math.random,
    log: pino({ level: 'silent' }),
  })
  t.teardown(async () => {
    await federation.close()
    await rm(folder, { recursive: true, force: true })
  })
  return federation
}

/** The same once the feed is open. */
export async function startTributary(t: Test, extra: object): Promise<Federation> {
  const federation = await openTributary(t, extra)
  await federation.ready
  return federation
}
