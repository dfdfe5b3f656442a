/**
 * The verdict about (provider, signal, agent), and all that a provider grants to one agent: pure in a provider's state and
 * the time, constant work per signal (docs/protocol.md#provider-files). A document past its cap never yields `authorized`.
 */
import { definitionOf } from './provider-definition.js'
import { type Grant, openRules, type Rules } from './rules.js'
import { type HeldDocument, type ProviderState, silence, type Unverifiable, type Verdict } from './verdict.js'

/** More than one reading asks for, of all providers together. */
export const MOST_REFERENCES = 5_000
/** Each name costs one question. */
export const MOST_NAMES = 50
const NOT_FOR_SIGNALS = 'its entries are about properties, which grant nothing for signals'

export type CompiledProvider = {
  /** Identifies the document; equal keys mean equal rules. */
  readonly digest?: string
  readonly rules?: Rules
  /** The instant at which the rules stop proving anything, ms. */
  readonly expiresAt: number
  /** The verdict's reason when there are no rules. */
  readonly reason: Unverifiable
}

/** What verdicts have worked out about a document is kept as long as the document. */
const opened = new WeakMap<HeldDocument['tables'], Rules>()

function rulesOf(document: HeldDocument): Rules {
  const known = opened.get(document.tables) ?? openRules(document)
  opened.set(document.tables, known)
  return known
}

/** One provider, ready for verdicts. The document's tables exist already, so a large document costs no more. */
export function compileProvider(state: ProviderState): CompiledProvider {
  const { document, expiresAt = 0 } = state
  const reason = silence(state, Number.POSITIVE_INFINITY) as Unverifiable // the reason once the document has expired
  if (!document) return { expiresAt: 0, reason }
  return { digest: document.digest, rules: rulesOf(document), expiresAt, reason }
}

/** All providers by domain. */
export function compileProviders(states: Iterable<ProviderState>): Map<string, CompiledProvider> {
  const result = new Map<string, CompiledProvider>()
  for (const state of states) result.set(state.domain, compileProvider(state))
  return result
}

function isOpen(grant: Grant, nowMs: number): boolean {
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
    const hint = rules.nearMiss(agentUrl)
    return { outcome: 'unauthorized', reason: 'agent_not_listed', ...(hint && { hint }) }
  }
  const grants = rules.grants(agent, signal)
  if (grants.length === 0) {
    const hint = rules.speaksOfSignals(agent) ? undefined : NOT_FOR_SIGNALS
    return { outcome: 'unauthorized', reason: 'agent_not_listed_for_signal', ...(hint && { hint }) }
  }
  const [only] = grants
  // The usual case: the verdict exists already and nothing is allocated (bench/authz.ts).
  if (only && grants.length === 1 && isOpen(only, nowMs)) return only.verdict
  const inForce = grants.filter((grant) => isOpen(grant, nowMs))
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

/**
 * The provider's signals that `agentUrl` may sell now: an agent that only answers briefs cannot list its signals, so they
 * are looked up one by one from this list. The work grows with the file.
 */
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
