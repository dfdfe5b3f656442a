/**
 * The verdict about (provider, signal, agent): pure in a provider's state and the time, constant work per signal
 * (docs/protocol.md#provider-files). Nothing here ever answers `authorized` from a document that is past its cap.
 */

import type { ProviderState } from '../state.js'
import type { Unverifiable, Verdict } from '../verdict.js'
import { nearMiss } from './hint.js'
import { type AgentGrants, compileRules, type Grant, type Rules } from './rules.js'

export type CompiledProvider = {
  readonly domain: string
  /** Names the document; equal keys, equal rules. */
  readonly digest?: string
  readonly rules?: Rules
  /** From this instant on the rules prove nothing, ms. */
  readonly expiresAt: number
  /** The verdict's reason when there are no rules. */
  readonly reason: Unverifiable
}

const NONE: readonly Grant[] = []
const NOT_FOR_SIGNALS = 'its entries are about properties, which grant nothing for signals'

/** A provider ready for verdicts. `earlier` lends its rules when the document is the same. */
function compileState(state: ProviderState, lend: (digest: string) => Rules | undefined): CompiledProvider {
  const { domain, document, expiresAt = 0, problem } = state
  if (!document) return { domain, expiresAt: 0, reason: problem?.reason ?? 'pending' }
  const rules = lend(document.digest) ?? compileRules(document.bytes)
  if (!rules) return { domain, expiresAt: 0, reason: 'invalid_file' }
  return { domain, digest: document.digest, rules, expiresAt, reason: 'expired' }
}

/** One provider ready for verdicts; throws nothing, whatever the document is. */
export function compileProvider(state: ProviderState): CompiledProvider {
  return compileState(state, () => undefined)
}

/**
 * All providers by domain. Documents that `earlier` or another provider already has compiled are not compiled
 * again: thousands of publishers may point to one file.
 */
export function compileProviders(
  states: Iterable<ProviderState>,
  earlier: ReadonlyMap<string, CompiledProvider> = new Map(),
): Map<string, CompiledProvider> {
  const byDigest = new Map<string, Rules>()
  const remember = ({ digest, rules }: CompiledProvider) => digest && rules && byDigest.set(digest, rules)
  for (const compiled of earlier.values()) remember(compiled)
  const result = new Map<string, CompiledProvider>()
  for (const state of states) {
    const compiled = compileState(state, (digest) => byDigest.get(digest))
    remember(compiled)
    result.set(compiled.domain, compiled)
  }
  return result
}

function open(grant: Grant, nowMs: number): boolean {
  return grant.from <= nowMs && nowMs < grant.until
}

/** Grants together allow every country that one of them allows; one without a list allows all. */
function countriesOf(grants: readonly Grant[]): readonly string[] | undefined {
  if (grants.length === 1) return grants[0]?.countries
  const all = new Set<string>()
  for (const { countries } of grants) {
    if (!countries) return undefined
    for (const country of countries) all.add(country)
  }
  return [...all].sort()
}

function windowHint(grants: readonly Grant[], nowMs: number): string {
  const opens = Math.min(...grants.map(({ from }) => (from > nowMs ? from : Number.POSITIVE_INFINITY)))
  if (Number.isFinite(opens)) return `its window opens at ${new Date(opens).toISOString()}`
  const closed = Math.max(...grants.map(({ until }) => until))
  return `its window closed at ${new Date(closed).toISOString()}`
}

/** The agent's grants that name the signal, each once, in no window's regard. */
function grantsFor(agent: AgentGrants, signalId: string, tags: readonly string[]): readonly Grant[] {
  let found = (agent.byId.size > 0 && agent.byId.get(signalId)) || NONE
  if (agent.byTag.size === 0) return found
  for (const tag of tags) {
    const byTag = agent.byTag.get(tag)
    if (!byTag) continue
    // Nearly every signal is granted by one list: only a second one makes a copy.
    found = found.length === 0 ? byTag : [...new Set([...found, ...byTag])]
  }
  return found
}

/** May the agent sell the provider's signal at `nowMs`? `agentUrl` is canonical (docs/protocol.md#urls). */
export function decide(
  compiled: CompiledProvider,
  signalId: string,
  agentUrl: string,
  nowMs: number,
): Exclude<Verdict, { outcome: 'not_applicable' }> {
  const { rules, expiresAt, reason } = compiled
  if (!rules || nowMs >= expiresAt) return { outcome: 'unverifiable', reason }
  const signal = rules.signals.get(signalId)
  if (!signal) return { outcome: 'unauthorized', reason: 'signal_not_published' }
  const agent = rules.agents.get(agentUrl)
  if (!agent) {
    const hint = nearMiss(rules, agentUrl)
    return { outcome: 'unauthorized', reason: 'agent_not_listed', ...(hint && { hint }) }
  }
  const grants = grantsFor(agent, signalId, signal.tags)
  if (grants.length === 0) {
    const hint = agent.byId.size + agent.byTag.size === 0 ? NOT_FOR_SIGNALS : undefined
    return { outcome: 'unauthorized', reason: 'agent_not_listed_for_signal', ...(hint && { hint }) }
  }
  const [only] = grants
  // The usual case: the verdict is ready and nothing is allocated (bench/authz.ts).
  if (only && grants.length === 1 && open(only, nowMs)) return only.verdict
  const inForce = grants.filter((grant) => open(grant, nowMs))
  if (inForce.length === 0) {
    return { outcome: 'unauthorized', reason: 'outside_window', hint: windowHint(grants, nowMs) }
  }
  const countries = countriesOf(inForce)
  const entries = inForce.map(({ entry }) => entry)
  return { outcome: 'authorized', entries, ...(countries && { countries }) }
}

/** The next instant after `nowMs` at which a verdict of this provider may change by itself; undefined when none. */
export function nextBoundary(compiled: CompiledProvider, nowMs: number): number | undefined {
  const { rules, expiresAt } = compiled
  if (!rules || nowMs >= expiresAt) return undefined
  const edge = rules.boundaries.find((boundary) => boundary > nowMs)
  return edge === undefined ? expiresAt : Math.min(edge, expiresAt)
}
