/**
 * Where a request came from, for the rate limit of callers without a key. Anybody can write X-Forwarded-For, so it counts
 * only as far as proxies of the operator's (docs/configuration.md, `listen.trusted_proxies`) have written it.
 */
import type { IncomingMessage } from 'node:http'
import ipaddr from 'ipaddr.js'

export type AddressOf = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string

/** Each proxy appends whom it heard from, so the last entry is the nearest. Headers that came twice are one list. */
function forwardedFor({ headers }: Pick<IncomingMessage, 'headers'>): string[] {
  const told = headers['x-forwarded-for'] ?? []
  return [told].flat().join(',').split(',')
}

/** Throws when a network is not CIDR notation. */
export function createAddressOf(trustedProxies: readonly string[] = []): AddressOf {
  const networks = trustedProxies.map((network) => ipaddr.parseCIDR(network))

  function isTrusted(text: string): boolean {
    const address = ipaddr.process(text) // an IPv4 address in an IPv6 socket is that IPv4 address
    return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
  }

  return (request) => {
    let address = request.socket.remoteAddress ?? ''
    if (networks.length === 0) return address
    for (const entry of forwardedFor(request).reverse()) {
      const before = entry.trim()
      if (!ipaddr.isValid(address) || !isTrusted(address) || !ipaddr.isValid(before)) break
      address = before
    }
    return address
  }
}
