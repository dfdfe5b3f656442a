/**
 * Opens sockets only to addresses that the policy permits, and to exactly the addresses that it checked. A name is
 * resolved once, here, so a second, different DNS answer cannot bypass the check (docs/protocol.md#egress).
 */
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import type { AddressPolicy } from './address.js'

const CONNECT_TIMEOUT_MS = 10_000 // a host that does not answer a SYN this long is down

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

export class EgressRefused extends Error {}

export const systemResolve: Resolve = (hostname) => dns.lookup(hostname, { all: true })

function literal(hostname: string): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return isIP(bare) ? bare : undefined
}

/** Why the address is refused, and the setting that allows it. Https to a public address needs no setting. */
function refusal(what: string, scheme: 'http:' | 'https:', isPublic: boolean): EgressRefused {
  return isPublic
    ? new EgressRefused(`${what} may be reached over https only (egress.allow_http, egress.hosts)`)
    : new EgressRefused(
        `${what} is not public and may not be reached over ${scheme.slice(0, -1)} (egress.allow_networks, egress.hosts)`,
      )
}

function guardedLookup(policy: AddressPolicy, resolve: Resolve, scheme: 'http:' | 'https:'): LookupFunction {
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

/**
 * How sockets are made. `signal` closes them, also those that are still connecting. Certificates are always verified,
 * whatever the environment says, because authorization rests on what providers publish over https. undici passes all of
 * these options to Node.
 */
export function socketOptions(options: {
  lookup?: LookupFunction
  signal: AbortSignal
}): buildConnector.BuildOptions {
  return { timeout: CONNECT_TIMEOUT_MS, rejectUnauthorized: true, ...options } as buildConnector.BuildOptions
}

/** A connector for undici's Agent. Literal addresses are checked first: sockets never look them up. */
export function createGuardedConnector(
  policy: AddressPolicy,
  resolve: Resolve,
  signal: AbortSignal,
): buildConnector.connector {
  const connectorFor = (scheme: 'http:' | 'https:') =>
    buildConnector(socketOptions({ lookup: guardedLookup(policy, resolve, scheme), signal }))
  const connectors = { 'http:': connectorFor('http:'), 'https:': connectorFor('https:') }
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    const address = literal(options.hostname)
    if (address && !policy.permits(address, scheme)) {
      callback(refusal(address, scheme, policy.permits(address, 'https:')), null)
      return
    }
    connectors[scheme](options, callback)
  }
}
