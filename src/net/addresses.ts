/** Which addresses a request may reach: public ones, and what the operator opened (docs/protocol.md#egress). */
import ipaddr from 'ipaddr.js'

const GLOBAL_UNICAST_V6 = ipaddr.parseCIDR('2000::/3') // all public IPv6 addresses are in it
// A public address in private use: Azure answers metadata questions of its virtual machines on it.
const METADATA = new Set(['168.63.129.16'])

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = [Address, number]

export type AddressPolicy = {
  /** May a connection to this address be made, given the scheme? IPv4-mapped forms count as the IPv4 they carry. */
  permits(address: string, scheme: 'http:' | 'https:'): boolean
}

export type AddressRules = {
  /** Plain http to public addresses too. */
  allowHttp: boolean
  /** Networks in CIDR notation that may be reached, by http as well. */
  allowNetworks: readonly string[]
}

function parseNetwork(text: string): Network {
  try {
    return ipaddr.parseCIDR(text)
  } catch {
    throw new Error(`egress network: expected CIDR notation such as 10.0.0.0/8, got ${JSON.stringify(text)}`)
  }
}

function isPublic(address: Address): boolean {
  if (METADATA.has(address.toString()) || address.range() !== 'unicast') return false
  return address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST_V6)
}

function inside(address: Address, networks: readonly Network[]): boolean {
  return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
}

/**
 * Which addresses an outbound request may reach: public ones, and the networks the operator opened
 * (docs/protocol.md#egress; docs/configuration.md, `egress`). Throws when a network is not CIDR notation.
 */
export function createAddressPolicy({ allowHttp, allowNetworks }: AddressRules): AddressPolicy {
  const networks = allowNetworks.map(parseNetwork)
  return {
    permits(text, scheme) {
      if (!ipaddr.isValid(text)) return false
      const address = ipaddr.process(text)
      if (inside(address, networks)) return true
      return isPublic(address) && (scheme === 'https:' || allowHttp)
    },
  }
}
