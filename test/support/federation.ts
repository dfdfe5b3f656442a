/** A whole Tributary over a sandbox world that the test controls: real registry, agents, providers, storage, server. */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { ValidateFunction } from 'ajv'
import { pino } from 'pino'
import { type Sandbox, startSandbox } from '../../sandbox/world.js'
import type { AdcpError } from '../../src/adcp/answer.js'
import { type Federation, startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'
import { systemClock } from '../../src/net/clock.js'
import { adcpSchema, SCHEMAS_ABSENT } from './adcp-schema.js'
import { callTool } from './call-tool.js'
import { lackOf } from './refusal.js'

export const BUYER = 'demo-buyer-key'
const BUYER_SHA256 = hash('sha256', BUYER, 'hex')

export type Answer = Record<string, unknown> & {
  status: string
  signals?: Signal[]
  pagination?: { has_more: boolean; cursor?: string; total_count?: number }
  wholesale_feed_version?: string
  pricing_version?: string
  incomplete?: { scope: string; description: string }[]
  errors?: { code: string; field?: string; severity?: string }[]
  adcp_error?: { code: string; message: string; field?: string }
}

type Revision = { built: number; wanted: number }

export type Offer = {
  upstream: string
  agent_url: string
  handle: string
  verdict: string
  deployments: string[]
}
export type Signal = Record<string, unknown> & {
  signal_agent_segment_id: string
  signal_ref: { scope: string; data_provider_domain?: string; signal_id: string }
  deployments: { type: string; is_live: boolean; activation_key?: object }[]
  pricing_options?: { pricing_option_id: string }[]
  ext: { tributary: { offers: Offer[] } }
}

export type World = {
  sandbox: Sandbox
  federation: Federation
  folder: string
  /** One tools/call over MCP; gives the structured content. */
  call(task: string, input: object, token?: string): Promise<Answer>
  wholesale(input?: object, token?: string): Promise<Answer>
  /** All pages of one walk, 100 rows each. */
  walk(input?: object, token?: string): Promise<Answer[]>
  /** Stops Tributary and starts it again on the same storage; the sandbox goes on. `meanwhile` happens in between. */
  restart(meanwhile?: () => Promise<void>): Promise<void>
  close(): Promise<void>
}

export type WorldOptions = {
  signals?: number
  /** Replaces settings of the world's configuration. */
  config?: (hosts: Sandbox['hosts'], folder: string) => object
  /** Domains that refuse connections when Tributary starts. */
  stopped?: readonly string[]
}

const RESPONSES: Record<string, string> = {
  get_signals: 'signals/get-signals-response.json',
  get_adcp_capabilities: 'protocol/get-adcp-capabilities-response.json',
  activate_signal: 'signals/activate-signal-response.json',
}
const validators = new Map<string, ValidateFunction>()

/** Every answer that a test sees is held against the protocol's schema, where the schemas are at hand, and every refusal helps. */
function assertConforms(task: string, answer: Answer): void {
  const lack = answer.adcp_error && lackOf(answer.adcp_error as AdcpError)
  if (lack) throw new Error(`${task}: the refusal ${lack}: ${JSON.stringify(answer.adcp_error)}`)
  const name = RESPONSES[task]
  if (SCHEMAS_ABSENT || !name) return
  const validate = validators.get(name) ?? adcpSchema(name)
  validators.set(name, validate)
  if (!validate(answer)) {
    throw new Error(`${task} does not conform to ${name}: ${JSON.stringify(validate.errors?.slice(0, 5))}`)
  }
}

function configFor(sandbox: Sandbox, folder: string, extra: object): Config {
  const base = {
    listen: { port: 0 },
    registries: [{ url: sandbox.registryUrl, refresh: '1m' }],
    defaults: { refresh: '1m', timeout: '60s' },
    egress: { hosts: sandbox.hosts },
    callers: { anonymous: 'metadata', keys: [{ id: 'demo-buyer', token_sha256: BUYER_SHA256 }] },
    storage: { url: `file:${folder}` },
  }
  return parseConfig('test', JSON.stringify({ ...base, ...extra }), {})
}

/**
 * Waits until nothing is missing for want of time alone, and what was read is published: on a busy machine an agent or a
 * provider may have been given up once. `down`: some provider cannot be reached, which is no matter of time.
 */
async function complete({ url, statuses, contributions }: Federation, down: boolean): Promise<void> {
  for (const end = Date.now() + 60_000; Date.now() < end; await wait(20)) {
    const slow = statuses().some(({ problem }) => problem?.reason === 'timeout')
    const unread = (await contributions()).some(
      ({ reasons }) => reasons.has('pending') || (!down && reasons.has('unreachable')),
    )
    const { revision } = (await (await fetch(`${url}/readyz`)).json()) as { revision: Revision }
    if (!slow && !unread && revision.built === revision.wanted) return
  }
}

export async function startWorld(options: WorldOptions = {}): Promise<World> {
  const sandbox = await startSandbox({ signals: options.signals ?? 240 })
  for (const domain of options.stopped ?? []) sandbox.stop(domain)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-e2e-'))
  const config = configFor(sandbox, folder, options.config?.(sandbox.hosts, folder) ?? {})
  const start = async () => {
    const started = await startFederation({
      config,
      version: '0.0.0',
      clock: systemClock,
      random: Math.random,
      openAfterMs: 60_000, // a busy machine opens with all that there is, too
      log: pino({ level: 'silent' }),
    })
    await started.ready
    return started
  }
  let federation = await start()
  await complete(federation, options.stopped !== undefined)

  async function call(task: string, input: object, token: string | undefined = BUYER): Promise<Answer> {
    const answer = await callTool<Answer>(federation.url, task, input, token)
    assertConforms(task, answer)
    return answer
  }

  const wholesale = (input: object = {}, token?: string) =>
    call('get_signals', { adcp_version: '3.1', discovery_mode: 'wholesale', ...input }, token)

  async function walk(input: object = {}, token?: string): Promise<Answer[]> {
    const pages: Answer[] = []
    let cursor: string | undefined
    do {
      const pagination = { max_results: 100, ...(cursor && { cursor }) }
      const page = await wholesale({ ...input, pagination }, token)
      pages.push(page)
      cursor = page.pagination?.cursor
    } while (cursor)
    return pages
  }

  return {
    sandbox,
    get federation() {
      return federation
    },
    folder,
    call,
    wholesale,
    walk,
    async restart(meanwhile) {
      await federation.close()
      await meanwhile?.()
      federation = await start()
    },
    async close() {
      await federation.close()
      await sandbox.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
