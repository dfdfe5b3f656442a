/**
 * Where requests go under one policy: to the origin that a url names, over guarded connections, or to the one that the operator
 * named for its domain. A new policy is new routes, and requests under way end on the old ones.
 */
import { type AddressRules, createAddressPolicy, type Resolve } from './addresses.js'
import type { Reads } from './body.js'
import { type Connections, createConnections } from './connections.js'
import { createConnector, createGuardedConnector } from './connector.js'

export type EgressPolicy = AddressRules & {
  /**
   * Sends requests for a domain to another origin, with the same Host header. The operator sets this, so the address is
   * not checked.
   */
  hosts: Readonly<Record<string, string>>
}

type Route = { connections: Connections; origin: string }
export type Routes = {
  of(url: URL): Route
  /** Waits for requests under way, then closes. */
  drain(): Promise<void>
  /** Aborts requests under way, then closes. */
  destroy(): Promise<void>
}

function originOf(domain: string, target: string): string {
  const url = URL.canParse(target) ? new URL(target) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new Error(`egress host ${domain}: expected an origin such as http://127.0.0.1:4900, got ${target}`)
  }
  return url.origin
}

/** Throws when a network or an origin in the policy cannot be read. */
export function createRoutes(policy: EgressPolicy, resolve: Resolve, onread: Reads): Routes {
  const lifetime = new AbortController()
  const { signal } = lifetime
  const guarded = createConnections(
    createGuardedConnector(createAddressPolicy(policy), resolve, { signal, onread }),
  )
  const mapped = createConnections(createConnector({ signal, onread }))
  const origins = new Map(
    Object.entries(policy.hosts).map(([domain, target]) => [domain, originOf(domain, target)]),
  )
  return {
    of(url) {
      const origin = origins.get(url.hostname)
      return origin ? { connections: mapped, origin } : { connections: guarded, origin: url.origin }
    },
    drain: async () => {
      await Promise.all([guarded.drain(), mapped.drain()])
    },
    destroy: async () => {
      const ended = Promise.all([guarded.destroy(), mapped.destroy()])
      lifetime.abort() // closing connections does not end those that are still being made
      await ended
    },
  }
}
