/** The product's parts that activation stands on, over agents that are there already. Free of tap: processes that are killed run it too. */
import { randomUUID } from 'node:crypto'
import type { Sandbox } from '../../../sandbox/world.js'
import { type ActivationOptions, createActivation } from '../../../src/activation/activation.js'
import type { Caller } from '../../../src/adcp/caller.js'
import type { Destination } from '../../../src/adcp/signal.js'
import { createFeed } from '../../../src/feed/feed.js'
import { systemClock } from '../../../src/net/clock.js'
import { createEgress } from '../../../src/net/egress.js'
import { buildSnapshot } from '../../../src/snapshot/builder.js'
import { DEFAULT_RETENTION } from '../../../src/store/retention.js'
import type { Store } from '../../../src/store/store.js'
import { createUpstreams, type UpstreamsConfig } from '../../../src/upstreams/upstreams.js'
import { until } from '../../support/upstream-world.js'
import { withTasks } from './asked.js'

export type AgentId = 'northwind' | 'meridian' | 'harborlight'

export const TRADE_DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
const callerWith = (id: string, destinations: Caller['destinations']): Caller => {
  return { id, role: 'buyer', visibility: 'full', destinations, accounts: new Map() }
}
export const buyer: Caller = callerWith('buyer', [TRADE_DESK])
export const other: Caller = callerWith('other', [TRADE_DESK])
export const stranger: Caller = callerWith('stranger', [])

/** The configuration of a roster; who is in it is the test's business. */
export const rosterOf = (statics: UpstreamsConfig['statics']): UpstreamsConfig => ({
  registries: [],
  statics,
  policy: {},
  account: { brand: { domain: 'tributary.example' }, operator: 'tributary.example' },
  defaults: {
    ...{
      timeoutMs: 60_000,
      refreshMs: 3_600_000,
      staleAfterMs: 7_200_000,
      dropAfterMs: 86_400_000,
      walkMs: 3_600_000,
    },
    ...{ pageSize: 100, concurrency: 16 },
  },
})

export const soon = () => Date.now() + 60_000

/** Every offer counts as authorized: authorization has tests of its own. */
const judge = () => ({
  stamp: 'all',
  policy: 'observe' as const,
  decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
  definition: () => undefined,
})

export type PartsOptions = {
  agents?: readonly AgentId[]
  reached?: ActivationOptions['reached']
  hasOwnCredential?: ActivationOptions['hasOwnCredential']
  call?: (call: ActivationOptions['call']) => ActivationOptions['call']
  hosts: Sandbox['hosts']
  urls: Readonly<Record<AgentId, string>>
  store: Store
  comment: (text: string) => void
}

/** The product's parts on agents that are there already, read and published once. */
export async function startParts(options: PartsOptions) {
  const { store, hosts, urls, comment } = options
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: [], hosts } })
  const upstreams = createUpstreams({
    config: rosterOf((options.agents ?? ['northwind', 'meridian']).map((id) => ({ id, url: urls[id] }))),
    send: egress.send,
    blobs: store.blobs,
    clock: systemClock,
    random: Math.random,
    referencesFor: () => [],
    onTrouble: comment,
  })
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const publish = () => {
    const previous = feed.current()
    const input = { ...(previous && { previous }), slices: upstreams.slices(), judge }
    feed.publish(buildSnapshot(input), Date.now())
  }
  upstreams.onChange(publish)
  await upstreams.start()
  const call: ActivationOptions['call'] = (agentUrl, task, args, { caller: _, seenAs: __, ...context }) =>
    upstreams.call(agentUrl, task, args, context)
  const activation = withTasks(
    createActivation({
      retention: DEFAULT_RETENTION,
      store,
      clock: systemClock,
      newId: randomUUID,
      resolve: (handle) => feed.resolve(handle),
      upstreamAt: upstreams.idOf,
      hasOwnCredential: options.hasOwnCredential ?? (() => false),
      call: options.call?.(call) ?? call,
      refreshSoon: upstreams.refreshSoon,
      onProblem: comment,
      ...(options.reached && { reached: options.reached }),
    }),
  )
  // Saved slices are good at once; what an agent's arguments look like is known only once it was asked.
  const startedAt = Date.now()
  for (const { agentUrl } of upstreams.statuses()) upstreams.refreshSoon(agentUrl)
  await until('all upstreams are read', () =>
    upstreams.statuses().every(({ confirmedAt }) => confirmedAt !== undefined && confirmedAt >= startedAt),
  )
  publish()
  async function close() {
    await activation.close()
    await upstreams.close()
    await egress.close()
  }
  return { upstreams, feed, activation, close }
}
