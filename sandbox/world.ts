/**
 * The demo world: a registry, five live agents and a dead one, four providers, each an HTTP server of its own on
 * loopback. The urls are the same at every start; `hosts` says where each domain answers this time, for the
 * `egress.hosts` of the configuration (docs/configuration.md).
 */
import { a2aHandler } from './a2a-agent.js'
import { type Agent, type AgentControls, createAgent } from './agent.js'
import { type Handler, type Host, openHost } from './host.js'
import { createMarket } from './market.js'
import { mcpHandler } from './mcp-agent.js'
import { AGENTS, type AgentId, FOGBANK, PROVIDERS, REGISTRY_DOMAIN } from './parties.js'
import { providerFiles, WELL_KNOWN } from './provider-files.js'
import { createProviderSite, type ProviderSite, type Published } from './provider-host.js'
import { registryHandler } from './registry.js'

export type SandboxOptions = {
  /** Distinct signals of the market, from 24 up; some are offered by several agents. */
  signals: number
  /** Another seed deals another market. Default 1. */
  seed?: number
  /** ms since the epoch; default the system's clock. */
  now?: () => number
  /** How long an activation takes until it is live, ms. Default 0. */
  activationDelayMs?: number
}

export type Sandbox = {
  /** Domain to the loopback origin that answers for it. */
  hosts: Readonly<Record<string, string>>
  registryUrl: string
  agents: Readonly<Record<AgentId, AgentControls>>
  /** The file that a domain publishes now: a provider, or the host that a pointer names. */
  provider(domain: string): Published
  setProvider(domain: string, file: Published): void
  /** Requests that a domain has answered. */
  requests(domain: string): number
  /** Cuts every connection to a domain, whatever it is, until `restart`. */
  stop(domain: string): void
  restart(domain: string): void
  /** Every request to a domain waits so long, ms; 0 ends it. */
  delay(domain: string, ms: number): void
  close(): Promise<void>
}

const LARGEST = 2 ** 31 - 1 // the market's arithmetic stays exact
// A privileged port that nobody serves and that the system never hands out: a freed port might belong to another soon.
const NOBODY = 'http://127.0.0.1:2'

function requireWhole(name: string, value: number, from: number): void {
  if (Number.isInteger(value) && value >= from && value <= LARGEST) return
  throw new RangeError(`${name}: expected a whole number from ${from} to ${LARGEST}, got ${value}`)
}

/**
 * Starts the demo world.
 * @throws RangeError when `signals` is less than one block of the market, or `signals` or `seed` no whole number.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { signals, seed = 1, now = Date.now, activationDelayMs = 0 } = options
  requireWhole('signals', signals, 24)
  requireWhole('seed', seed, 0)
  const market = createMarket({ size: signals, seed })
  const agents = Object.fromEntries(
    (Object.keys(AGENTS) as AgentId[]).map((id) => [id, createAgent({ market, id, now, activationDelayMs })]),
  ) as Record<AgentId, Agent>
  const sites = new Map<string, ProviderSite>(
    providerFiles(market).map(({ domain, path, make }) => [domain, createProviderSite(path, make)]),
  )
  sites.set(
    PROVIDERS.quietfield.domain,
    createProviderSite(WELL_KNOWN, () => undefined),
  )

  const handlers: [string, Handler][] = [
    [REGISTRY_DOMAIN, registryHandler()],
    ...Object.values(agents).map((agent): [string, Handler] => [
      agent.party.domain,
      agent.party.id === 'harborlight' ? a2aHandler(agent) : mcpHandler(agent),
    ]),
    ...[...sites].map(([domain, site]): [string, Handler] => [domain, site.handle]),
  ]
  const open = new Map<string, Host>(
    await Promise.all(
      handlers.map(async ([domain, handle]): Promise<[string, Host]> => [domain, await openHost(handle)]),
    ),
  )

  function host(domain: string): Host {
    const found = open.get(domain)
    if (!found) throw new RangeError(`no such domain in the sandbox: ${domain}`)
    return found
  }

  function site(domain: string): ProviderSite {
    const found = sites.get(domain)
    if (!found) throw new RangeError(`no such provider in the sandbox: ${domain}`)
    return found
  }

  return {
    hosts: {
      ...Object.fromEntries([...open].map(([domain, { origin }]) => [domain, origin])),
      [FOGBANK.domain]: NOBODY,
    },
    registryUrl: `https://${REGISTRY_DOMAIN}`,
    agents,
    provider: (domain) => site(domain).current(),
    setProvider: (domain, file) => site(domain).publish(file),
    requests: (domain) => host(domain).requests(),
    stop: (domain) => host(domain).stop(),
    restart: (domain) => host(domain).restart(),
    delay: (domain, ms) => host(domain).delay(ms),
    close: async () => {
      await Promise.all([...open.values()].map((each) => each.close()))
    },
  }
}
