/**
 * Whether a webhook could be delivered at all, asked before a task is accepted: the same guard that stands before every
 * request (docs/protocol.md#egress), without sending one.
 */
import { createAddressPolicy } from '../net/address.js'
import { type Resolve, systemResolve } from '../net/connect.js'
import type { EgressPolicy } from '../net/egress.js'
import type { SendFailure } from '../net/send.js'

/** The configuration's current policy is asked for each time: it can be reloaded. */
export function createTargetCheck(policy: () => EgressPolicy, resolve: Resolve = systemResolve) {
  return async (target: string): Promise<SendFailure | undefined> => {
    const url = URL.canParse(target) ? new URL(target) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'refused'
    const { hosts, ...addresses } = policy()
    if (hosts[url.hostname] !== undefined) return undefined
    const scheme = url.protocol
    const { permits } = createAddressPolicy(addresses)
    const bare = url.hostname.replace(/^\[|\]$/g, '')
    try {
      const found = await resolve(bare)
      return found.some(({ address }) => permits(address, scheme)) ? undefined : 'refused'
    } catch {
      return 'unresolvable' // which of the resolver's reasons it was changes nothing for the caller
    }
  }
}
