/** Where a call that was written down goes by now: the ledger knows the agent, whatever the operator calls it since. */
import type { Ledger } from '../store/ledger.js'

/** `callId`: of the activation that the call is, or that its task came from. */
export type AddressOf = (upstream: string, callId: string | undefined) => Promise<string>

export function createAddressOf(
  ledger: Pick<Ledger, 'get'>,
  upstreamAt: (agentUrl: string) => string,
): AddressOf {
  return async (upstream, callId) => {
    const entry = callId === undefined ? undefined : await ledger.get(callId)
    return entry ? upstreamAt(entry.agentUrl) : upstream
  }
}
