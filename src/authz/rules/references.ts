/**
 * What providers published and granted to one agent, as references: how a brief-only agent's signals are found by exact
 * lookup, although it cannot list them itself.
 */
import type { SignalRef } from '../../adcp/reference.js'
import { type CompiledProvider, decide } from './decide.js'

/** References of all signals that `agentUrl` (canonical) may sell now, by provider domain and file order. */
export function referencesFor(
  compiled: ReadonlyMap<string, CompiledProvider>,
  agentUrl: string,
  nowMs: number,
): SignalRef[] {
  return [...compiled.values()]
    .filter(({ rules }) => rules && rules.agentNumber(agentUrl) >= 0)
    .sort((a, b) => (a.domain < b.domain ? -1 : 1))
    .flatMap((provider) =>
      Array.from({ length: provider.rules?.signalCount ?? 0 }, (_, n) => provider.rules?.signalId(n) ?? '')
        .filter((id) => decide(provider, id, agentUrl, nowMs).outcome === 'authorized')
        .map((id) => ({
          scope: 'data_provider' as const,
          data_provider_domain: provider.domain,
          signal_id: id,
        })),
    )
}
