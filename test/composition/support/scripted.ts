/**
 * A world whose every part does what a test says: agents, registries and providers on loopback, a whole Tributary over
 * them, its configuration changed and its process restarted at will. Agents speak MCP by hand, so that hundreds of polls
 * a second cost little.
 */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Federation, startFederation } from '../../../src/composition/federation.js'
import { parseConfig } from '../../../src/config/load.js'
import type { Config } from '../../../src/config/values.js'
import { type Clock, systemClock } from '../../../src/net/clock.js'
import type { Answer } from '../../support/federation.js'
import { type RunningAgent, readJson, startHttp } from '../../support/upstream-agent.js'

type Test = { teardown(task: () => unknown): void }
export type Row = Record<string, unknown> & { signal_agent_segment_id: string }

const PROVIDERS = ['alpha.example', 'beta.example', 'gamma.example'] as const
export type Provider = (typeof PROVIDERS)[number]
const SIGNAL_IDS = Array.from({ length: 200 }, (_, at) => `s${at}`)
const GATED = 'gold'

/** Signals of one agent alone; no provider has a say. */
export function ownRow(agentUrl: string, at: number, cpm: number): Row {
  return {
    signal_agent_segment_id: `own_${at}`,
    signal_ref: { scope: 'signal_source', signal_source_url: agentUrl, signal_id: `own_${at}` },
    name: `Own ${at}`,
    description: 'Somebody who did something',
    signal_type: 'owned',
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
  }
}

/** A signal of a provider, which must authorize the agent. */
export function providerRow(provider: Provider, at: number, cpm: number): Row {
  return {
    ...ownRow('https://unused.example', at, cpm),
    signal_agent_segment_id: `${provider}_${at}`,
    signal_ref: { scope: 'data_provider', data_provider_domain: provider, signal_id: `s${at}` },
    signal_type: 'marketplace',
  }
}

export type Agent = {
  name: string
  url: string
  /** What it offers to everybody; a row of a function is made for who asks. */
  offer(rows: readonly Row[]): void
  /** What it offers to the account `gold` instead; undefined: the rate card. */
  offerGold(rows: readonly Row[] | undefined): void
  /** What it does with requests, or with those of one account. `hang`: no answer until it is told otherwise. */
  behave(how: Behaviour, whom?: 'everybody' | 'gold'): void
  calls(): number
  close(): Promise<void>
}

export type Behaviour = 'answers' | 'fails' | 'hangs'

export async function startAgent(name: string): Promise<Agent> {
  let rows: readonly Row[] = []
  let gold: readonly Row[] | undefined
  let version = 1
  let calls = 0
  const behaviour: Record<'everybody' | 'gold', Behaviour> = { everybody: 'answers', gold: 'answers' }
  let waiting: (() => void)[] = []

  function signals(args: Record<string, unknown>) {
    const { account_id: account } = (args.account ?? {}) as { account_id?: string }
    const own = account === GATED ? gold : undefined
    const scope = own ? 'account' : 'public'
    const tokens = { cache_scope: scope, wholesale_feed_version: `${scope}-v${version}` }
    if (args.if_wholesale_feed_version === tokens.wholesale_feed_version) {
      return { status: 'completed', unchanged: true, ...tokens }
    }
    const { max_results: size = 50, cursor } = (args.pagination ?? {}) as Record<string, number | string>
    const all = own ?? rows
    const from = Number(cursor ?? 0)
    const to = from + Number(size)
    const more = to < all.length
    const pagination = { has_more: more, total_count: all.length, ...(more && { cursor: String(to) }) }
    return { status: 'completed', ...tokens, signals: all.slice(from, to), pagination }
  }

  function payload(task: string, args: Record<string, unknown>) {
    if (task !== 'get_adcp_capabilities')
      return task === 'get_signals' ? signals(args) : { status: 'completed' }
    return {
      status: 'completed',
      adcp: { major_versions: [3], supported_versions: ['3.0', '3.1'] },
      supported_protocols: ['signals'],
      signals: { discovery_modes: ['brief', 'wholesale'] },
      wholesale_feed_versioning: { supported: true },
    }
  }

  const running = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as {
      id?: number
      method: string
      params?: Record<string, unknown>
    }
    const args = (body?.params?.arguments ?? {}) as { account?: { account_id?: string } }
    const whom = args.account?.account_id === GATED ? 'gold' : 'everybody'
    calls += 1
    const how = behaviour.everybody === 'answers' ? behaviour[whom] : behaviour.everybody
    if (how === 'hangs') await new Promise<void>((resolve) => waiting.push(resolve))
    if (how === 'fails') return void response.writeHead(503).end()
    if (body?.id === undefined) return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const result =
      body.method === 'initialize'
        ? {
            protocolVersion: '2025-06-18',
            capabilities: { tools: {} },
            serverInfo: { name: 'scripted', version: '1' },
          }
        : body.method === 'tools/list'
          ? { tools: [{ name: 'get_signals', inputSchema: { type: 'object' } }] }
          : {
              content: [{ type: 'text', text: 'done' }],
              structuredContent: payload(String(body.params?.name), args),
            }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }))
  })

  return {
    name,
    url: running.url,
    offer(next) {
      rows = next
      version += 1
    },
    offerGold(next) {
      gold = next
      version += 1
    },
    behave(how, whom = 'everybody') {
      behaviour[whom] = how
      if (how === 'hangs') return
      for (const go of waiting) go()
      waiting = []
    },
    calls: () => calls,
    close: running.close,
  }
}

/** One server that stands for all provider domains; a file can be held back. */
async function startProviders(agents: () => readonly string[]) {
  const held = new Map<string, (() => void)[]>()
  const running = await startHttp(async (request, response) => {
    const domain = String(request.headers.host).split(':')[0] as string
    const waiting = held.get(domain)
    if (waiting) await new Promise<void>((resolve) => waiting.push(resolve))
    const entries = agents().map((url) => ({
      ...{ url, authorized_for: 'everything', authorization_type: 'signal_ids' },
      signal_ids: SIGNAL_IDS,
    }))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify({
        signals: SIGNAL_IDS.map((id) => ({ id, name: id, value_type: 'binary' })),
        authorized_agents: entries,
        last_updated: '2026-11-02T08:00:00Z',
      }),
    )
  }, '')
  return {
    running,
    /** Until `release`, nobody gets the file of this domain. */
    hold(domain: Provider): void {
      if (!held.has(domain)) held.set(domain, [])
    },
    release(domain: Provider): void {
      const waiting = held.get(domain) ?? []
      held.delete(domain)
      for (const go of waiting) go()
    },
  }
}

export type ListingMode = 'lists' | 'empty' | 'error' | 'garbage'

async function startRegistry() {
  let listed: readonly { url: string; name: string }[] = []
  let mode: ListingMode = 'lists'
  let answers = 0
  const running = await startHttp((_request, response) => {
    answers += 1
    if (mode === 'error') return void response.writeHead(503).end()
    const agents = mode === 'empty' ? [] : listed.map((one) => ({ type: 'signals', ...one }))
    response.writeHead(200, { 'content-type': mode === 'garbage' ? 'text/html' : 'application/json' })
    response.end(mode === 'garbage' ? '<html>sorry</html>' : JSON.stringify({ agents }))
  }, '')
  return {
    running,
    url: running.origin,
    list(next: readonly { url: string; name: string }[]) {
      listed = next
    },
    behave(next: ListingMode) {
      mode = next
    },
    answers: () => answers,
  }
}

/** Real time that can be moved on: what is due then runs at once. */
export function shiftableClock(): { clock: Clock; shift(ms: number): void } {
  let offset = 0
  const pending = new Set<{ at: number; run: () => void; cancel: () => void }>()
  const now = () => systemClock.now() + offset
  const clock: Clock = {
    now,
    after(ms, task) {
      const run = () => {
        pending.delete(one)
        task()
      }
      const one = { at: now() + Math.max(0, ms), run, cancel: systemClock.after(ms, run) }
      pending.add(one)
      return () => {
        pending.delete(one)
        one.cancel()
      }
    },
  }
  return {
    clock,
    shift(ms) {
      offset += ms
      for (const one of [...pending]) {
        one.cancel()
        if (one.at <= now()) one.run()
        else one.cancel = systemClock.after(one.at - now(), one.run)
      }
    },
  }
}

const KEY = 'the-key'
const READER = { id: 'reader', token_sha256: hash('sha256', KEY, 'hex') }

export type Settings = {
  /** Ids and agents that the configuration names itself. */
  statics?: readonly { id: string; agent: Agent }[]
  registries?: readonly string[]
  /** Agents at which the reader's account `deal` is known as `gold`. */
  deals?: readonly Agent[]
  pace?: Partial<Config['defaults']>
  authorization?: object
}

/** The pace of tests: everything is read again many times a second. */
const PACE = { refreshMs: 30, timeoutMs: 1_500, staleAfterMs: 60_000, dropAfterMs: 3_600_000 }
const REGISTRY_MS = 30

export async function startScripted(t: Test, { agents: count = 3, clock = systemClock as Clock } = {}) {
  const agents = await Promise.all(Array.from({ length: count }, (_, at) => startAgent(`a${at}`)))
  const registry = await startRegistry()
  const providers = await startProviders(() => agents.map(({ url }) => url))
  const folder = await mkdtemp(join(tmpdir(), 'tributary-scripted-'))
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  let federation: Federation | undefined
  let id = 0

  function configOf(settings: Settings): Config {
    const { statics = [], registries = [], deals = [], pace = {}, authorization = {} } = settings
    const file = {
      listen: { port: 0 },
      registries: registries.map((url) => ({ url })),
      upstreams: statics.map(({ id: name, agent }) => ({ id: name, url: agent.url, protocol: 'mcp' })),
      egress: {
        allow_networks: ['127.0.0.0/8'],
        hosts: Object.fromEntries(PROVIDERS.map((domain) => [domain, providers.running.origin])),
      },
      authorization,
      callers: {
        anonymous: 'metadata',
        keys: [
          {
            ...READER,
            accounts: { deal: Object.fromEntries(deals.map((agent) => [agent.url, { account_id: GATED }])) },
          },
        ],
      },
      storage: { url: `file:${folder}` },
    }
    const config = parseConfig('test', JSON.stringify(file), {})
    return {
      ...config,
      defaults: { ...config.defaults, ...PACE, ...pace },
      registries: config.registries.map((one) => ({ ...one, refreshMs: REGISTRY_MS })),
    }
  }

  async function start(settings: Settings, ready = true): Promise<Federation> {
    const started = await startFederation({
      ...{ config: configOf(settings), version: '0.0.0', clock, random: Math.random, log },
    })
    federation = started
    if (ready) await started.ready
    return started
  }

  async function stop(): Promise<void> {
    await federation?.close()
    federation = undefined
  }

  async function call(task: string, input: object): Promise<Answer> {
    const response = await fetch(`${federation?.url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${KEY}`,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: ++id,
        method: 'tools/call',
        params: { name: task, arguments: input },
      }),
    })
    const body = (await response.json()) as { result?: { structuredContent: Answer } }
    if (!body.result) throw new Error(`${response.status}: ${JSON.stringify(body)}`)
    return body.result.structuredContent
  }

  const page = (input: object = {}) => call('get_signals', { discovery_mode: 'wholesale', ...input })

  /** Every page of one walk; begun again when the feed it walks is gone. */
  async function walk(input: object = {}): Promise<Answer[]> {
    for (;;) {
      const pages: Answer[] = []
      let cursor: string | undefined
      do {
        const pagination = { max_results: 100, ...(cursor && { cursor }) }
        const answer = await page({ ...input, pagination })
        pages.push(answer)
        cursor = answer.pagination?.cursor
      } while (cursor)
      if (new Set(pages.map((each) => each.wholesale_feed_version)).size === 1) return pages
    }
  }

  t.teardown(async () => {
    for (const domain of PROVIDERS) providers.release(domain)
    for (const agent of agents) agent.behave('answers')
    await stop()
    const servers: RunningAgent[] = [registry.running, providers.running]
    await Promise.all([...agents, ...servers].map((each) => each.close()))
    await rm(folder, { recursive: true, force: true })
  })

  return {
    ...{ agents, registry, providers, lines, start, stop, call, page, walk },
    apply: (settings: Settings) => federation?.apply(configOf(settings)),
    ready: async () => (await fetch(`${federation?.url}/readyz`)).json() as Promise<Ready>,
    federation: () => federation as Federation,
  }
}

type Ready = { status: string; revision: { built: number; wanted: number; behind_ms: number } }
export type Scripted = Awaited<ReturnType<typeof startScripted>>

/** The account of the reader that some agents price apart. */
export const DEAL = { account: { account_id: 'deal' } }

/** Reads until it holds; throws with what was read last. */
export async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean, ms = 8_000): Promise<T> {
  const end = Date.now() + ms
  for (;;) {
    const value = await read()
    if (holds(value)) return value
    if (Date.now() > end) throw new Error(`it never came to hold: ${JSON.stringify(value).slice(0, 2_000)}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export const total = (answer: Answer): number => answer.pagination?.total_count ?? -1
export const lacks = (answer: Answer): string =>
  (answer.incomplete ?? []).map((one) => one.description).join('\n')
