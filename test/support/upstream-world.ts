/** What a test of the upstreams room needs around it: rows, blobs on disk, a real egress, and patience with a bound. */
import { systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import { openBlobFiles } from '../../src/store/blob-files.js'
import type { StaticUpstream } from '../../src/upstreams/roster/roster.js'
import {
  createUpstreams,
  type Upstreams,
  type UpstreamsConfig,
  type UpstreamsOptions,
} from '../../src/upstreams/upstreams.js'
import { temporaryFolder } from './temporary-folder.js'

export const defaults: UpstreamsConfig['defaults'] = {
  timeoutMs: 30_000,
  refreshMs: 60_000,
  staleAfterMs: 3_600_000,
  dropAfterMs: 86_400_000,
  walkMs: 3_600_000,
  pageSize: 100,
  concurrency: 4,
}

const OWN = { brand: { domain: 'tributary.example' }, operator: 'tributary.example' }

export function configOf(
  statics: readonly StaticUpstream[],
  pace: Partial<UpstreamsConfig['defaults']> = {},
): UpstreamsConfig {
  return { registries: [], statics, policy: {}, account: OWN, defaults: { ...defaults, ...pace } }
}

export function row(at: number, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    signal_ref: {
      scope: 'data_provider',
      data_provider_domain: 'tridentauto.example',
      signal_id: `signal_${at}`,
    },
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at}`,
    description: 'Shoppers who compared models',
    signal_type: 'marketplace',
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 2, currency: 'USD' }],
    ...more,
  }
}

export const rows = (count: number) => Array.from({ length: count }, (_, at) => row(at))

export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const end = Date.now() + ms
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The canonical url of an upstream of the roster; the id where there is none. */
export const urlOf = ({ roster }: Pick<Upstreams, 'roster'>, id: string): string =>
  roster().entries.find((entry) => entry.id === id)?.agentUrl ?? id

type Test = { teardown(task: () => unknown): void }

/** A real egress that may reach loopback, closed with the test. */
export function loopbackEgress(t: Test) {
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(() => egress.close())
  return egress
}

/** Upstreams over real sockets and real files, closed with the test. */
export async function openUpstreams(
  t: Test,
  config: UpstreamsConfig,
  more: Partial<UpstreamsOptions> & { folder?: string } = {},
) {
  const { folder = await temporaryFolder(t), ...options } = more
  const egress = loopbackEgress(t)
  const trouble: string[] = []
  const blobs = await openBlobFiles({
    folder,
    onDamage: (name, reason) => trouble.push(`${name}: ${reason}`),
  })
  const upstreams = createUpstreams({
    config,
    send: egress.send,
    blobs,
    clock: systemClock,
    random: Math.random,
    referencesFor: () => [],
    onTrouble: (message) => trouble.push(message),
    ...options,
  })
  let closed = false
  const close = async () => {
    if (!closed) await upstreams.close()
    closed = true
  }
  t.teardown(close)
  return { upstreams, trouble, folder, close }
}
