/** The whole way from the sandbox's agents to brief answers, over real sockets and real files, closed with the test. */
import { randomUUID } from 'node:crypto'
import { startSandbox } from '../../../sandbox/world.js'
import type { GetSignalsRequest } from '../../../src/adcp/signal-requests.js'
import { createProviders } from '../../../src/authz/provider/providers.js'
import { compileProviders, judgeAt } from '../../../src/authz/rules/verdict.js'
import { type BriefsOptions, createBriefs, readSynonyms } from '../../../src/briefs/briefs.js'
import { createCourier } from '../../../src/events/courier.js'
import { createFeed } from '../../../src/feed/feed.js'
import type { Reader } from '../../../src/feed/query.js'
import { systemClock } from '../../../src/net/clock.js'
import { createEgress } from '../../../src/net/egress.js'
import type { EgressPolicy } from '../../../src/net/routes.js'
import type { SigningKey } from '../../../src/signing/key.js'
import { buildSnapshot } from '../../../src/snapshot/builder.js'
import { openStore } from '../../../src/store/store.js'
import type { Slice } from '../../../src/upstreams/rows/slice.js'
import { createUpstreams } from '../../../src/upstreams/upstreams.js'
import { temporaryFolder } from '../../support/temporary-folder.js'
import { until } from '../../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }
/** `key`: what webhooks are signed with. */
type More = Partial<BriefsOptions> & { key?: SigningKey }

const STORAGE_KEYS = ['a storage key of the tests, long enough']
export const buyer: Reader = { caller: 'buyer', visibility: 'full', grants: [] }
export const other: Reader = { caller: 'other', visibility: 'full', grants: [] }
export const anonymous: Reader = { caller: 'anonymous', visibility: 'metadata', grants: [] }

export type World = Awaited<ReturnType<typeof openWorld>>

/** Everything but the sandbox, on a storage folder; `close` in the opposite order. */
export async function openWorld(
  hosts: Readonly<Record<string, string>>,
  registryUrl: string,
  folder: string,
  { key, ...more }: More = {},
) {
  const policy: EgressPolicy = { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts }
  const egress = createEgress({ policy })
  const { send } = egress
  const courier = createCourier({ policy, key })
  const clock = systemClock
  const store = await openStore({
    url: `file:${folder}`,
    now: clock.now,
    keys: STORAGE_KEYS,
    onProblem: () => {},
  })
  const { blobs } = store
  const log = { info: () => {}, warn: () => {} }
  const providers = createProviders({
    send,
    blobs,
    clock,
    refreshMs: 3_600_000,
    concurrency: 8,
    limits: () => ({ domainsPerUpstream: 100, bytes: 1024 ** 3 }),
    log,
  })
  const upstreams = createUpstreams({
    ...{ send, blobs, clock, random: Math.random, onTrouble: () => {} },
    referencesFor: () => [],
    config: {
      registries: [{ url: registryUrl, refreshMs: 60_000 }],
      statics: [],
      policy: {},
      account: { brand: { domain: 'tributary.example' }, operator: 'tributary.example' },
      defaults: {
        timeoutMs: 60_000,
        refreshMs: 60_000,
        staleAfterMs: 3_600_000,
        dropAfterMs: 86_400_000,
        walkMs: 3_600_000,
        concurrency: 4,
        pageSize: 100,
      },
    },
  })
  const feed = createFeed({ cursorSecret: 'a secret of the tests', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const judge = () =>
    judgeAt(compileProviders(providers.states()), { policy: 'strict', providers: {} }, clock.now())
  const discovery = createBriefs({
    ...{ feed, upstreams, judge, store, clock },
    ...{ post: courier.post, signsWebhooks: key !== undefined },
    synonyms: await readSynonyms('config/synonyms.yaml'),
    access: () => ({ scope: 'public' }),
    rates: () => undefined,
    egressPolicy: () => policy,
    secret: 'a secret of the tests',
    newId: randomUUID,
    grantsOf: () => [],
    onTrouble: () => {},
    ...more,
  })

  /** Reads the market once and publishes it, or what of it the test chooses. */
  async function publish(chosen: (slice: Slice) => boolean = () => true): Promise<void> {
    await upstreams.start()
    // Nobody answers for Fogbank, and that takes longer to be known.
    const isRead = () =>
      upstreams.statuses().every(({ id, state }) => state !== 'starting' || id.includes('fogbank'))
    const mirrored = () => upstreams.statuses().filter(({ state }) => state === 'fresh').length
    await until('three feeds are mirrored, and no other is being read', () => mirrored() >= 3 && isRead())
    providers.want(upstreams.providerDomains())
    await providers.settled()
    const snapshot = buildSnapshot({ slices: upstreams.slices().filter(chosen), judge: judge() })
    feed.publish(snapshot, clock.now())
    await discovery.publish(snapshot)
  }

  function ask(input: GetSignalsRequest, reader: Reader = buyer) {
    const now = clock.now()
    const signal = AbortSignal.timeout(130_000)
    return discovery.discover(input, reader, { now, deadline: now + 130_000, signal, contextId: 'ctx_test' })
  }

  async function close(): Promise<void> {
    await discovery.close()
    await upstreams.close()
    await providers.close()
    await store.close()
    await courier.close()
    await egress.close()
  }

  return { upstreams, providers, feed, judge, store, discovery, publish, ask, close }
}

/** A world of its own sandbox. */
export async function startWorld(t: Test, signals: number, more: More = {}) {
  const sandbox = await startSandbox({ signals })
  const world = await openWorld(sandbox.hosts, sandbox.registryUrl, await temporaryFolder(t), more)
  t.teardown(async () => {
    await world.close()
    await sandbox.close()
  })
  await world.publish()
  return { ...world, sandbox }
}

export type Row = {
  name: string
  signal_agent_segment_id: string
  signal_ref: { scope: string; signal_id: string; data_provider_domain?: string }
  coverage_percentage?: number
  deployments: { is_live: boolean }[]
  pricing_options?: { model: string; cpm?: number; currency: string }[]
}

type Answer = Awaited<ReturnType<World['ask']>>

type Told = { signal_agent_segment_id: string; has: readonly string[] }

/** The rows of a page that share no concept with the question, or of which the answer does not say that they do. */
export function strangersIn({
  signals,
  ext,
}: Pick<ReturnType<typeof readAnswer>, 'signals' | 'ext'>): string[] {
  const { relevance = [] } = (ext as { tributary: { relevance?: readonly Told[] } }).tributary
  const sharing = new Set(
    relevance.flatMap(({ has, signal_agent_segment_id: id }) => (has.length > 0 ? [id] : [])),
  )
  return signals.map((row) => row.signal_agent_segment_id).filter((id) => !sharing.has(id))
}

/** The parts of an answer, as a caller would read them. */
export function readAnswer(answer: Answer) {
  if (answer.kind === 'refused') throw new Error(`refused: ${answer.error.message}`)
  const { fields, message, rows, status } = answer
  const signals = JSON.parse(`[${Buffer.concat(rows?.parts ?? []).toString()}]`) as Row[]
  const { pagination, incomplete, ext, task_id } = fields as {
    pagination?: { has_more: boolean; cursor?: string; total_count: number }
    incomplete?: { scope: string; description: string }[]
    ext?: { tributary: { upstreams: { id: string; outcome: string; reason?: string; found?: number }[] } }
    task_id?: string
  }
  return {
    status,
    message,
    signals,
    pagination,
    incomplete,
    ext,
    warnings: answer.warnings ?? [],
    upstreams: ext?.tributary.upstreams ?? [],
    taskId: task_id,
  }
}
