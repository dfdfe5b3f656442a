/** The sandbox's agents, mirrored and merged into a feed, with the activation room on a storage beside it. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { type Sandbox, startSandbox } from '../../../sandbox/world.js'
import type { Answer } from '../../../src/adcp/answer.js'
import type { Caller } from '../../../src/adcp/caller.js'
import type { Destination, PricingOption, SignalRow } from '../../../src/adcp/signal.js'
import type { Feed } from '../../../src/feed/feed.js'
import type { Reader } from '../../../src/feed/query.js'
import { openStore, type Store, type StoreOptions } from '../../../src/store/store.js'
import type { Upstreams } from '../../../src/upstreams/upstreams.js'
import { embedded } from '../../store/support/storages.js'
import { until, urlOf } from '../../support/upstream-world.js'
import type { Tasked } from './asked.js'
import { type AgentId, buyer, type PartsOptions, soon, startParts, TRADE_DESK } from './parts.js'

/** One way to buy one signal, as a caller reads it from the feed. */
export type Choice = {
  signal: string
  offer: string
  option: string
  destinations: Destination[]
  row: SignalRow
}

export type World = {
  sandbox: Sandbox
  upstreams: Upstreams
  feed: Feed
  store: Store
  activation: Tasked
  /** The feed as the buyer reads it now. */
  rows(reader?: Reader): SignalRow[]
  /** Signals that the agent offers and prices, in the feed's order; on the-trade-desk unless told otherwise. */
  choices(agent: AgentId, where?: (choice: Choice) => boolean): Choice[]
  activate(request: object, as?: Caller): Promise<Answer>
}

export type WorldOptions = Pick<PartsOptions, 'agents' | 'reached' | 'call' | 'hasOwnCredential'> & {
  store?: Store
  sandbox?: { activationDelayMs?: number }
}

export const key = () => `key-${randomUUID()}`

export function asReader({ id, destinations }: Caller): Reader {
  return { caller: id, visibility: 'full', grants: destinations }
}

type Provenance = { tributary: { offers: { upstream: string; handle: string; deployments: string[] }[] } }

function destinationOf(key: string): Destination {
  const [place = '', account] = key.split('#')
  const at = account === undefined ? {} : { account }
  return place.startsWith('platform:')
    ? { type: 'platform', platform: place.slice('platform:'.length), ...at }
    : { type: 'agent', agent_url: place.slice('agent:'.length), ...at }
}

/** Takes rows out of northwind's feed, never most of them at once, until the offer is gone from ours. */
export async function withdrawOffer({ sandbox, upstreams, choices }: World, offer: string): Promise<void> {
  const { northwind } = sandbox.agents
  const all = () => choices('northwind', () => true)
  for (let left = all(); left.some((choice) => choice.offer === offer); left = all()) {
    northwind.withdraw(Math.ceil(left.length / 2.5))
    upstreams.refreshSoon(urlOf(upstreams, 'northwind'))
    await until('fewer offers are in the feed', () => all().length < left.length)
  }
}

/** A storage on the system's clock; closed when the test ends. */
export async function openLive(t: Test, url: string, more: Partial<StoreOptions> = {}): Promise<Store> {
  const store = await openStore({ url, now: Date.now, onProblem: (problem) => t.comment(problem), ...more })
  t.teardown(() => store.close())
  return store
}

export function urlsOf({ agents }: Sandbox): Record<AgentId, string> {
  return {
    northwind: agents.northwind.url,
    meridian: agents.meridian.url,
    harborlight: agents.harborlight.url,
  }
}

export async function startWorld(t: Test, options: WorldOptions = {}): Promise<World> {
  const sandbox = await startSandbox({ signals: 24, ...options.sandbox })
  const store = options.store ?? (await openLive(t, (await embedded(t)).url))
  const { hosts } = sandbox
  const comment = (text: string) => t.comment(text)
  const parts = await startParts({ ...options, store, hosts, urls: urlsOf(sandbox), comment })
  const { upstreams, feed, activation } = parts
  t.teardown(async () => {
    await parts.close()
    await sandbox.close()
  })

  function rows(reader = asReader(buyer)): SignalRow[] {
    const all: SignalRow[] = []
    let cursor: string | undefined
    do {
      const page = feed.wholesale({ maxResults: 100, ...(cursor && { cursor }) }, reader, Date.now())
      if (page.kind !== 'page') throw new Error(`the feed answers ${page.kind}`)
      all.push(...(JSON.parse(`[${Buffer.concat(page.rows).toString()}]`) as SignalRow[]))
      cursor = page.cursor
    } while (cursor)
    return all
  }

  function choices(
    agent: AgentId,
    where = ({ destinations }: Choice) => onTradeDesk(destinations),
  ): Choice[] {
    return rows().flatMap((row) => {
      const { ext, pricing_options: options = [] } = row as SignalRow & { ext: Provenance }
      return ext.tributary.offers.flatMap(({ upstream, handle, deployments }) => {
        const option = options.find(({ pricing_option_id: id }: PricingOption) => id.startsWith(`${handle}.`))
        if (upstream !== agent || !option) return []
        const destinations = deployments.map(destinationOf)
        const choice = {
          ...{ signal: row.signal_agent_segment_id, offer: handle, option: option.pricing_option_id },
          ...{ destinations, row },
        }
        return where(choice) ? [choice] : []
      })
    })
  }

  return {
    ...{ sandbox, upstreams, feed, store, activation, rows, choices },
    activate: (request, as = buyer) =>
      activation.activate({ idempotency_key: key(), ...request } as never, as, soon()),
  }
}

/** Calls whose work the upstream does and whose answer is lost on the way, as often as `next` says. */
export function losingAnswers() {
  const lost = { next: 0 }
  const call: NonNullable<WorldOptions['call']> =
    (make) =>
    async (...args) => {
      const outcome = await make(...args)
      if (lost.next === 0) return outcome
      lost.next -= 1
      return { kind: 'failed', reason: 'unreachable', message: 'other side closed' }
    }
  return { lost, call }
}

export function onTradeDesk(destinations: readonly Destination[]): boolean {
  return destinations.some((one) => one.type === 'platform' && one.platform === 'the-trade-desk')
}

export function first<T>(all: readonly T[]): T {
  const [one] = all
  if (one === undefined) throw new Error('the sandbox has no such signal')
  return one
}

/** The request that activates a choice on the-trade-desk. */
export function asks({ signal, option }: Choice, more: object = {}): Record<string, unknown> {
  return { signal_agent_segment_id: signal, pricing_option_id: option, destinations: [TRADE_DESK], ...more }
}
