/**
 * The signals that a provider publishes and grants to one agent. A brief-only agent cannot list its signals, so they
 * are looked up one by one from this list.
 */

import { compileProvider, decide } from './decide.js'
import { definitionOf } from './provider-definition.js'
import type { ProviderState } from './state.js'

/** More than one reading asks for, of all providers together. */
export const MOST_REFERENCES = 5_000
/** Each name costs one question. */
export const MOST_NAMES = 50

export type Granted = {
  /** The ids of the first signals that the agent may sell, in the order of the file. */
  readonly ids: readonly string[]
  /** The provider's names for them, each once: for agents that cannot be asked by reference. */
  readonly names: readonly string[]
}

export const NOTHING_GRANTED: Granted = { ids: [], names: [] }

/** Whether the provider's file lists the agent (canonical url) at all. */
export function lists(state: ProviderState, agentUrl: string): boolean {
  return (compileProvider(state).rules?.agentNumber(agentUrl) ?? -1) >= 0
}

/** The provider's signals that `agentUrl` may sell now. The work grows with the file. */
export function grantedTo(state: ProviderState, agentUrl: string, nowMs: number): Granted {
  const provider = compileProvider(state)
  const { rules } = provider
  const agent = rules?.agentNumber(agentUrl) ?? -1
  if (!rules || agent < 0) return NOTHING_GRANTED
  const ids: string[] = []
  const names = new Set<string>()
  for (let signal = 0; signal < rules.signalCount && ids.length < MOST_REFERENCES; signal += 1) {
    if (rules.grants(agent, signal).length === 0) continue
    const id = rules.signalId(signal)
    if (decide(provider, id, agentUrl, nowMs).outcome !== 'authorized') continue
    ids.push(id)
    const name = names.size < MOST_NAMES && definitionOf(rules, id)?.name
    if (name) names.add(name)
  }
  return { ids, names: [...names] }
}
