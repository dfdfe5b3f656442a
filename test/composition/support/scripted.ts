/**
 * A world whose every part does what a test says: agents, registries and providers on loopback, a whole Tributary over
 * them, its configuration changed and its process restarted at will.
 */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Federation, startFederation } from '../../../src/composition/federation.js'
import { parseConfig } from '../../../src/config/load.js'
import type { Config } from '../../../src/config/values.js'
import type { Explanation } from '../../../src/explain/explain.js'
import { type Clock, systemClock } from '../../../src/net/clock.js'
import { callTool } from '../../support/call-tool.js'
import type { Answer } from '../../support/federation.js'
import type { RunningAgent } from '../../support/upstream-agent.js'
import { type Agent, GATED, startAgent } from './scripted-agents.js'
import { PROVIDERS, type Registry, startProviders, startRegistry } from './scripted-strangers.js'

type Test = { teardown(task: () => unknown): void }

const KEY = 'the-key'
const OPERATOR_KEY = 'the-operator-key'
const OPERATOR = { id: 'operator', role: 'operator', token_sha256: hash('sha256', OPERATOR_KEY, 'hex') }
const READER = { id: 'reader', token_sha256: hash('sha256', KEY, 'hex') }

export type Settings = {
  /** Ids and agents that the configuration names itself. */
  statics?: readonly { id: string; agent: Agent }[]
  registries?: readonly string[]
  /** Agents at which the reader's account `deal` is known as `gold`. */
  deals?: readonly Agent[]
  /** As whom instead. */
  dealAs?: string
  pace?: Partial<Config['defaults']>
  /** How long the first feed waits for whoever does not answer, ms. */
  openAfterMs?: number
  /** How long after a restart questions wait for what the feed was merged from, ms. */
  restMs?: number
  /** Between two looks at a provider's file, ms; a day when absent. */
  providersMs?: number
  limits?: Partial<Config['limits']>
}

/** The pace of tests: everything is read again many times a second, and no agent is too slow on a busy machine. */
const PACE = { refreshMs: 30, timeoutMs: 60_000, staleAfterMs: 60_000, dropAfterMs: 3_600_000 }
const REGISTRY_MS = 30

type Counts = {
  agents?: number
  registries?: number
  clock?: Clock
  /** Merging and indexing have threads, however small the feed is. */
  inThreads?: boolean
}

const started = <T>(count: number, start: (at: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, at) => start(at)))

export async function startScripted(t: Test, counts: Counts = {}) {
  const { clock = systemClock } = counts
  const agents = await started(counts.agents ?? 3, (at) => startAgent(`a${at}`))
  const registries = await started(counts.registries ?? 1, startRegistry)
  const [registry] = registries as [Registry]
  const providers = await startProviders(() => agents.map(({ url }) => url))
  const folder = await mkdtemp(join(tmpdir(), 'tributary-scripted-'))
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  let federation: Federation | undefined

  function configOf(settings: Settings): Config {
    const {
      statics = [],
      registries = [],
      deals = [],
      dealAs = GATED,
      pace = {},
      limits = {},
      providersMs,
    } = settings
    const file = {
      listen: { port: 0 },
      registries: registries.map((url) => ({ url })),
      upstreams: statics.map(({ id: name, agent }) => ({ id: name, url: agent.url, protocol: 'mcp' })),
      egress: {
        allow_networks: ['127.0.0.0/8'],
        hosts: Object.fromEntries(PROVIDERS.map((domain) => [domain, providers.running.origin])),
      },
      callers: {
        anonymous: 'metadata',
        keys: [
          {
            ...READER,
            accounts: { deal: Object.fromEntries(deals.map((agent) => [agent.url, { account_id: dealAs }])) },
          },
          OPERATOR,
        ],
      },
      storage: { url: `file:${folder}` },
    }
    const config = parseConfig('test', JSON.stringify(file), {})
    return {
      ...config,
      revision: `${config.revision} ${JSON.stringify([pace, limits, providersMs])}`, // what says another thing has another one
      defaults: { ...config.defaults, ...PACE, ...pace },
      limits: { ...config.limits, ...limits },
      registries: config.registries.map((one) => ({ ...one, refreshMs: REGISTRY_MS })),
      authorization: { ...config.authorization, ...(providersMs && { refreshMs: providersMs }) },
    }
  }

  async function start(settings: Settings, ready = true): Promise<Federation> {
    const started = await startFederation({
      ...{ config: configOf(settings), version: '0.0.0', clock, random: Math.random, log },
      openAfterMs: settings.openAfterMs ?? 60_000,
      restMs: settings.restMs ?? 600_000,
      ...(counts.inThreads && { smallFeedBytes: 0 }),
    })
    federation = started
    if (ready) await started.ready
    return started
  }

  async function stop(): Promise<void> {
    await federation?.close()
    federation = undefined
  }

  const call = (task: string, input: object) => callTool<Answer>(`${federation?.url}`, task, input, KEY)

  /** What GET /explain says to an operator. */
  async function explain(params: Readonly<Record<string, string>>): Promise<Explanation> {
    const url = `${federation?.url}/explain?${new URLSearchParams(params)}`
    const response = await fetch(url, { headers: { authorization: `Bearer ${OPERATOR_KEY}` } })
    return (await response.json()) as Explanation
  }

  /** An operator has an upstream read in full. */
  const refresh = (upstream: string) =>
    fetch(`${federation?.url}/refresh?upstream=${upstream}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATOR_KEY}` },
    })

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
    for (const domain of PROVIDERS) providers.behave(domain, 'serves')
    for (const agent of agents) agent.behave('answers')
    await stop()
    const servers: RunningAgent[] = [...registries.map(({ running }) => running), providers.running]
    await Promise.all([...agents, ...servers].map((each) => each.close()))
    await rm(folder, { recursive: true, force: true })
  })

  return {
    ...{ agents, registry, registries, providers, folder, lines },
    ...{ start, stop, call, page, walk, explain, refresh },
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
export async function until<T>(
  read: () => Promise<T>,
  holds: (value: T) => boolean,
  ms = 60_000,
): Promise<T> {
  const end = Date.now() + ms
  for (;;) {
    const value = await read()
    if (holds(value)) return value
    if (Date.now() > end) throw new Error(`it never came to hold: ${JSON.stringify(value).slice(0, 2_000)}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** The same, time being moved on in steps that are short against whatever is due in seconds. */
export function passing<T>(
  shift: (ms: number) => void,
  read: () => Promise<T>,
  holds: (value: T) => boolean,
): Promise<T> {
  const next = () => {
    shift(40)
    return read()
  }
  return until(next, holds)
}

/** Starts, moving time on so that nobody waits for who hangs or fails. */
export async function startPassing(
  world: Scripted,
  settings: Settings,
  shift: (ms: number) => void,
): Promise<void> {
  const { ready } = await world.start(settings, false)
  let isReady = false
  void ready.then(() => {
    isReady = true
  })
  await passing(
    shift,
    async () => isReady,
    (is) => is,
  )
}

export const total = (answer: Answer): number => answer.pagination?.total_count ?? -1
export const lacks = (answer: Answer): string =>
  (answer.incomplete ?? []).map((one) => one.description).join('\n')
