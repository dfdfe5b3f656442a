/**
 * The adagents.json files of the demo market (docs/protocol.md#provider-files): grants by ids, grants by tags, a
 * pointer to a file on another host, and a provider that publishes nothing. The reseller stands in two of them under
 * a url that is not quite its own.
 */
import { definitionOf, valuesOf } from './definition.js'
import type { Slot } from './layout.js'
import type { Market, MarketSignal } from './market.js'
import { AGENTS, type AgentId, ATLAS_RIGHTS, PROVIDERS, type ProviderId } from './parties.js'

export type ProviderFile = Record<string, unknown>

/** Fixed: the same world at every start, and a file that never looks older than the one a client holds. */
const PUBLISHED = '2026-11-02T08:00:00Z'

const TAGS: Readonly<Record<string, string>> = {
  automotive: 'Vehicle audiences',
  premium: 'Audiences with a premium price',
  basket: 'Audiences from loyalty-card baskets',
  seasonal: 'Audiences that are sold for a season',
  heritage: 'Audiences licensed before the current contracts',
  wellness: 'Audiences from opted-in wellness data',
  firmographic: 'Audiences of companies and professions',
  connected_tv: 'Audiences that are cleared for connected TV',
  finance: 'Audiences from consented financial data',
}

type ProviderSlot = Extract<Slot, { provider: ProviderId }>

function from(provider: ProviderId) {
  return (slot: Slot): slot is ProviderSlot => 'provider' in slot && slot.provider === provider
}

function definitionEntry(market: Market, signal: MarketSignal, tags: readonly string[]) {
  const { value_type, categories, range } = valuesOf(signal)
  return {
    id: signal.id,
    name: signal.name,
    description: signal.description,
    value_type,
    tags: [...tags],
    ...(categories ? { allowed_values: categories } : {}),
    ...(range ? { range: { ...range, unit: 'score' } } : {}),
    ...definitionOf(market, signal),
    last_updated: PUBLISHED,
  }
}

function catalogue(market: Market, provider: ProviderId) {
  const lane = market.lane(from(provider))
  return Array.from({ length: lane.count }, (_, position) => {
    const signal = market.signal(lane.at(position))
    return definitionEntry(market, signal, (signal.slot as ProviderSlot).tags)
  })
}

function frame(
  provider: ProviderId,
  signals: { tags: string[] }[],
  authorized_agents: unknown[],
): ProviderFile {
  const { domain, name } = PROVIDERS[provider]
  const used = [...new Set(signals.flatMap(({ tags }) => tags))].sort()
  return {
    $schema: '/schemas/3.1.19/adagents.json',
    contact: { name, email: `signals@${domain}`, domain },
    signals,
    signal_tags: Object.fromEntries(used.map((tag) => [tag, { name: tag, description: TAGS[tag] ?? tag }])),
    authorized_agents,
    last_updated: PUBLISHED,
  }
}

/** The ids of Motorledger's signals that its contract with an agent names. */
function contractIds(market: Market, agent: AgentId): string[] {
  const granted = from('motorledger')
  const lane = market.lane((slot) => granted(slot) && slot.grantedTo.includes(agent))
  return Array.from({ length: lane.count }, (_, position) => market.signal(lane.at(position)).id)
}

function byIds(url: string, purpose: string, signal_ids: string[]) {
  return { url, authorized_for: purpose, authorization_type: 'signal_ids', signal_ids }
}

function byTags(url: string, purpose: string, signal_tags: string[], limits: Record<string, unknown> = {}) {
  return { url, authorized_for: purpose, authorization_type: 'signal_tags', signal_tags, ...limits }
}

/** Motorledger names every signal that an agent may sell. */
function motorledgerFile(market: Market): ProviderFile {
  const signals = catalogue(market, 'motorledger')
  const { northwind, meridian, oldmill, gullwing } = AGENTS
  return frame('motorledger', signals, [
    byIds(northwind.url, 'Vehicle audiences of the exchange', contractIds(market, 'northwind')),
    byIds(meridian.url, 'Vehicle audiences without the exclusive ones', contractIds(market, 'meridian')),
    byIds(oldmill.url, 'Vehicle audiences of the first contract', contractIds(market, 'oldmill')),
    byIds(`${gullwing.url}/`, 'Vehicle audiences, trial', contractIds(market, 'northwind')),
  ])
}

/** Larder grants whole groups of signals by tag; one grant is over, and one names a path in another case. */
function larderFile(market: Market): ProviderFile {
  const signals = catalogue(market, 'larderloyalty')
  const { northwind, meridian, harborlight, oldmill, gullwing } = AGENTS
  return frame('larderloyalty', signals, [
    byTags(northwind.url, 'Basket and wellness audiences', ['basket', 'wellness']),
    byTags(meridian.url, 'Basket and wellness audiences', ['basket', 'wellness']),
    byTags(harborlight.url, 'Barbecue season 2025', ['seasonal'], {
      effective_from: '2025-04-01T00:00:00Z',
      effective_until: '2025-09-30T23:59:59Z',
    }),
    byTags(oldmill.url, 'Audiences of the heritage contract', ['heritage']),
    byTags(gullwing.url.replace('/mcp', '/MCP'), 'Basket audiences, trial', ['basket']),
  ])
}

/** Atlas grants by tag as well, Meridian only in its own markets; nobody resells. */
function atlasFile(market: Market): ProviderFile {
  const signals = catalogue(market, 'atlasb2b')
  const { northwind, meridian, harborlight, oldmill } = AGENTS
  return frame('atlasb2b', signals, [
    byTags(northwind.url, 'Firmographic and finance audiences', ['firmographic', 'finance']),
    byTags(meridian.url, 'Firmographic audiences in Europe and North America', ['firmographic'], {
      countries: ['US', 'CA', 'GB', 'DE', 'FR', 'ES', 'IT', 'BE', 'NL', 'SE', 'DK', 'FI', 'PL'],
    }),
    byTags(harborlight.url, 'Firmographic audiences on connected TV', ['connected_tv']),
    byTags(oldmill.url, 'Audiences of the heritage contract', ['heritage']),
  ])
}

export type PublishedFile = { domain: string; path: string; make(): ProviderFile }

export const WELL_KNOWN = '/.well-known/adagents.json'

/** What stands where; Quietfield, the fourth provider, publishes nothing. */
export function providerFiles(market: Market): PublishedFile[] {
  const pointer = {
    $schema: '/schemas/3.1.19/adagents.json',
    authoritative_location: `https://${ATLAS_RIGHTS.domain}${ATLAS_RIGHTS.path}`,
    last_updated: PUBLISHED,
  }
  return [
    { domain: PROVIDERS.motorledger.domain, path: WELL_KNOWN, make: () => motorledgerFile(market) },
    { domain: PROVIDERS.larderloyalty.domain, path: WELL_KNOWN, make: () => larderFile(market) },
    { domain: PROVIDERS.atlasb2b.domain, path: WELL_KNOWN, make: () => pointer },
    { domain: ATLAS_RIGHTS.domain, path: ATLAS_RIGHTS.path, make: () => atlasFile(market) },
  ]
}
