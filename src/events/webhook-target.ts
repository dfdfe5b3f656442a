/**
 * Whether a webhook could be delivered at all, asked before its task or subscription is accepted: the same guard that
 * stands before every request (docs/protocol.md#egress), without sending one. A place that a caller names is held to
 * rules of its own: what the operator opened for upstreams, or routes elsewhere, is not for it.
 */

import { within } from '../net/clock.js'
import { createAddressPolicy, type Resolve, systemResolve } from '../net/connect.js'
import type { EgressPolicy } from '../net/egress.js'
import type { SendFailure } from '../net/send.js'

const LOOKUP_MS = 5_000 // a name that nobody answers for must not hold the request that carries it

/** Where callers' webhooks may go: public https, and `egress.webhook_networks`. */
export function webhookPolicy({ webhookNetworks }: { webhookNetworks: readonly string[] }): EgressPolicy {
  return { allowHttp: false, allowNetworks: webhookNetworks, hosts: {} }
}

type TargetCheckOptions = { resolve?: Resolve; lookupMs?: number }

/** The configuration's current policy is asked for each time: it can be reloaded. */
export function createTargetCheck(
  policy: () => Pick<EgressPolicy, 'allowHttp' | 'allowNetworks'>,
  { resolve = systemResolve, lookupMs = LOOKUP_MS }: TargetCheckOptions = {},
) {
  return async (target: string): Promise<SendFailure | undefined> => {
    const url = URL.canParse(target) ? new URL(target) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'refused'
    const scheme = url.protocol
    const { permits } = createAddressPolicy(policy())
    try {
      const asked = resolve(url.hostname.replace(/^\[|\]$/g, ''))
      const found = await within(asked, { timeoutMs: lookupMs }, () => undefined)
      if (!found) return 'unresolvable'
      return found.some(({ address }) => permits(address, scheme)) ? undefined : 'refused'
    } catch {
      return 'unresolvable' // which of the resolver's reasons it was changes nothing for the caller
    }
  }
}
