/**
 * Addresses of names that callers choose. The system's resolver works in threads of which all of a process share two: a name
 * whose servers never answer holds one for ten seconds, also when nobody waits for it any more, and with a few such names no
 * upstream is found. Public names are therefore asked for over sockets, which hold nobody up. Other names, such as those of a
 * private network, are in no stranger's hands, and only the system knows where they stand.
 */
import { promises as dns } from 'node:dns'
import { parse } from 'tldts'
import { type Resolve, systemResolve } from './addresses.js'

/** The second try has twice the time; both end before who checks an address gives up. */
const PATIENCE = { timeout: 1_500, tries: 2 }

/** `servers`: default: those of the system. */
export function createCallersResolve(servers?: readonly string[]): Resolve {
  return async (hostname) => {
    if (!parse(hostname).isIcann) return await systemResolve(hostname)
    const resolver = new dns.Resolver(PATIENCE) // made anew, because the system's servers may change
    if (servers) resolver.setServers(servers)
    const [four, six] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const found = [
      ...(four.status === 'fulfilled' ? four.value : []).map((address) => ({ address, family: 4 })),
      ...(six.status === 'fulfilled' ? six.value : []).map((address) => ({ address, family: 6 })),
    ]
    if (found.length === 0 && four.status === 'rejected') throw four.reason
    return found
  }
}

export const callersResolve = createCallersResolve()
