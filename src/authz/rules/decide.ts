/**
 * The verdict about (provider, signal, agent): pure in a provider's state and the time, constant work per signal
 * (docs/protocol.md#provider-files). A document past its cap never yields `authorized`.
 */

import { nearMiss } from './hint.js'
import { type Grant, openRules, type Rules } from './rules.js'
import { type HeldDocument, type ProviderState, silence } from './state.js'
import type { Unverifiable, Verdict } from './verdict.js'

export type CompiledProvider = {
  readonly domain: string
  /** Identifies the document; equal keys mean equal rules. */
  readonly digest?: string
  readonly rules?: Rules
  /** The instant at which the rules stop proving anything, ms. */
  readonly expiresAt: number
  /** The verdict's reason when there are no rules. */
  readonly reason: Unverifiable
}

const NOT_FOR_SIGNALS = 'its entries are about properties, which grant nothing for signals'

/** What verdicts have worked out about a document is kept as long as the document. */
const opened = new WeakMap<HeldDocument['tables'], Rules>()

function rulesOf(document: HeldDocument): Rules {
  const known = opened.get(document.tables) ?? openRules(document)
  opened.set(document.tables, known)
  return known
}

/** One provider, ready for verdicts. The document's tables exist already, so a large document costs no more. */
export function compileProvider(state: ProviderState): CompiledProvider {
  const { domain, document, expiresAt = 0 } = state
  const reason = silence(state, Number.POSITIVE_INFINITY) as Unverifiable // the reason once the document has expired
  if (!document) return { domain, expiresAt: 0, reason }
  return { domain, digest: document.digest, rules: rulesOf(document), expiresAt, reason }
}

/** All providers by domain. */
export function compileProviders(states: Iterable<ProviderState>): Map<string, CompiledProvider> {
  const result = new Map<string, CompiledProvider>()
  for (const state of states) result.set(state.domain, compileProvider(state))
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

/** May the agent sell the provider's signal at `nowMs`? `agentUrl` is canonical (docs/protocol.md#urls). */
export function decide(
  compiled: CompiledProvider,
  signalId: string,
  agentUrl: string,
  nowMs: number,
): Exclude<Verdict, { outcome: 'not_applicable' }> {
  const { rules, expiresAt, reason } = compiled
  if (!rules || nowMs >= expiresAt) return { outcome: 'unverifiable', reason }
  const signal = rules.signalNumber(signalId)
  if (signal < 0) return { outcome: 'unauthorized', reason: 'signal_not_published' }
  const agent = rules.agentNumber(agentUrl)
  if (agent < 0) {
    const hint = nearMiss(rules, agentUrl)
    return { outcome: 'unauthorized', reason: 'agent_not_listed', ...(hint && { hint }) }
  }
  const grants = rules.grants(agent, signal)
  if (grants.length === 0) {
    const hint = rules.speaksOfSignals(agent) ? undefined : NOT_FOR_SIGNALS
    return { outcome: 'unauthorized', reason: 'agent_not_listed_for_signal', ...(hint && { hint }) }
  }
  const [only] = grants
  // The usual case: the verdict exists already and nothing is allocated (bench/authz.ts).
  if (only && grants.length === 1 && open(only, nowMs)) return only.verdict
  const inForce = grants.filter((grant) => open(grant, nowMs))
  if (inForce.length === 0) {
    return { outcome: 'unauthorized', reason: 'outside_window', hint: windowHint(grants, nowMs) }
  }
  const countries = countriesOf(inForce)
  const entries = inForce.map(({ entry }) => entry)
  return { outcome: 'authorized', entries, ...(countries && { countries }) }
}

/**
 * The next instant after `nowMs` at which time alone may change a verdict of this provider; undefined when none will.
 */
export function nextBoundary(compiled: CompiledProvider, nowMs: number): number | undefined {
  const { rules, expiresAt } = compiled
  if (!rules || nowMs >= expiresAt) return undefined
  const edge = rules.nextBoundary(nowMs)
  return edge === undefined ? expiresAt : Math.min(edge, expiresAt)
}
