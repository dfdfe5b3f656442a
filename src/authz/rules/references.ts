/**
 * What providers published and granted to one agent, as references: how a brief-only agent's signals are found by exact
 * lookup, although it cannot list them itself.
 */
import type { SignalRef } from '../../adcp/reference.js'
import { type CompiledProvider, decide } from './decide.js'
import { definitionOf } from './definition.js'

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

const MOST_NAMES = 50 // each is a question

/** What their providers call the same signals, each name once: for agents that cannot be asked for references. */
export function namesFor(
  compiled: ReadonlyMap<string, CompiledProvider>,
  agentUrl: string,
  nowMs: number,
): string[] {
  const names = new Set<string>()
  for (const ref of referencesFor(compiled, agentUrl, nowMs)) {
    if (names.size === MOST_NAMES) break
    const rules = ref.scope === 'data_provider' && compiled.get(ref.data_provider_domain)?.rules
    const name = rules && definitionOf(rules, ref.signal_id)?.name
    if (name) names.add(name)
  }
  return [...names]
}
