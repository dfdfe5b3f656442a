/**
 * Which addresses a request may reach (docs/protocol.md#egress). A name is resolved once, and sockets are opened to exactly the
 * addresses that were checked, so a second, different DNS answer cannot bypass the check. Sockets never look up an address that
 * a url has in the place of a name: it is checked before.
 */
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
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

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** All addresses of a host name, as the system resolves it. Rejects when it cannot. */
export const systemResolve: Resolve = (hostname) => dns.lookup(hostname, { all: true })

/** The policy does not permit an address; the message names the setting that would. */
export class EgressRefused extends Error {}

/** Why the address is refused, and the setting that allows it. Https to a public address needs no setting. */
function refusal(what: string, scheme: 'http:' | 'https:', isPublic: boolean): EgressRefused {
  return isPublic
    ? new EgressRefused(`${what} may be reached over https only (egress.allow_http, egress.hosts)`)
    : new EgressRefused(
        `${what} is not public and may not be reached over ${scheme.slice(0, -1)} (egress.allow_networks, egress.hosts)`,
      )
}

/** Resolves names to the addresses that the policy permits, and fails when it permits none of them. */
export function guardedLookup(
  policy: AddressPolicy,
  resolve: Resolve,
  scheme: 'http:' | 'https:',
): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (found) => {
        const allowed = found.filter(({ address }) => policy.permits(address, scheme))
        const [first] = allowed
        if (!first) {
          const isPublic = found.some(({ address }) => policy.permits(address, 'https:'))
          callback(refusal(hostname, scheme, isPublic), '')
        } else if (options.all) callback(null, allowed)
        else callback(null, first.address, first.family)
      },
      (error) => callback(error, ''),
    )
  }
}

function literal(hostname: string): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return isIP(bare) ? bare : undefined
}

/** Why a connection to this host is refused; undefined for one that is permitted, and for a name. */
export function literalRefusal(
  policy: AddressPolicy,
  hostname: string,
  scheme: 'http:' | 'https:',
): EgressRefused | undefined {
  const address = literal(hostname)
  if (address === undefined || policy.permits(address, scheme)) return undefined
  return refusal(address, scheme, policy.permits(address, 'https:'))
}
