/**
 * The verdict about (provider, signal, agent), and what is held of the provider that it rests on: the closed vocabulary of
 * docs/authorization.md and docs/protocol.md#provider-files, and the decision itself. The state is plain and immutable, its
 * bytes in shared memory, so that it can be sent to the thread where merging runs. The caps become one instant in it, so that a
 * verdict is a pure function of state and time, constant work per signal. A document past its cap never yields `authorized`. A
 * judge gives what all providers say at one moment, verdicts and definitions, to whoever merges.
 */
import { definitionOf, type SignalDefinition } from './provider-definition.js'
import { type Authorized, type Grant, openRules, type Rules } from './rules.js'
import type { RuleTables } from './tables.js'

const HOUR = 3_600_000
const STALE_CAP_MS = 24 * HOUR // from the first failure after the last good fetch
export const HARD_CAP_MS = 7 * 24 * HOUR // from the last good fetch, whatever happened since
export const POINTER_HOLD_MS = 24 * HOUR // how long a changed pointer must stay the same
/** One reading of an upstream asks for fewer, of all providers together. */
export const MOST_REFERENCES = 5_000
/** Each name costs one question. */
export const MOST_NAMES = 50
const NOT_FOR_SIGNALS = 'its entries are about properties, which grant nothing for signals'

export type Unverifiable =
  | 'no_file'
  | 'unreachable'
  | 'bad_redirect' // too many, or outside the provider's registrable domain
  | 'invalid_file'
  | 'too_large'
  | 'bad_pointer'
  | 'held_pointer' // a changed pointer is not yet stable, and no earlier file is left
  | 'rollback' // the only file offered is older than the one last held
  | 'bad_domain'
  | 'expired' // the last good file passed its hard cap
  | 'too_many_domains' // the upstreams that name it have exceeded their share of domains
  | 'over_budget' // its file exceeds its share of the memory for all files
  | 'pending' // not fetched yet

/**
 * Reasons that count as a decision: the provider itself says that there is no file, and a malformed domain cannot have
 * one. With any other reason, nobody has decided about the signals.
 */
const DECIDED = ['no_file', 'bad_domain'] as const

/** Why a withheld signal is still undecided. */
export type Undecided = Exclude<Unverifiable, (typeof DECIDED)[number]>

/** Whether with this reason nobody has decided about the signals. */
function isUndecided(reason: Unverifiable): reason is Undecided {
  return !DECIDED.some((one) => one === reason)
}

export type Unauthorized =
  | 'signal_not_published'
  | 'agent_not_listed'
  | 'agent_not_listed_for_signal'
  | 'outside_window'

/** What each reason means and who can change it: used by `authz`, `explain` and docs/authorization.md. */
export const VERDICT_REASONS: Readonly<Record<Unauthorized | Unverifiable, string>> = {
  signal_not_published: 'the provider does not publish a signal with this id in signals[]',
  agent_not_listed: 'no entry in authorized_agents[] has the url of this agent',
  agent_not_listed_for_signal:
    "entries have the url of this agent, but none names this signal's id or one of its tags",
  outside_window: 'an entry grants this signal, but not at this time',
  no_file: 'the provider publishes no adagents.json',
  unreachable: 'the file of the provider could not be fetched',
  bad_redirect: "the file redirects too often or out of the provider's registrable domain",
  invalid_file: 'what the provider publishes is not a readable adagents.json',
  too_large: 'the file exceeds 5 MB at the well-known url or 20 MB where a pointer leads',
  bad_pointer: 'the file points to a place that is not an https url, points on, or redirects',
  held_pointer: 'a changed pointer is on hold for 24 hours, and no earlier file is held',
  rollback: 'the file is older than the one last held, and that one is gone',
  bad_domain: 'the domain of the provider is no registrable domain name',
  expired: 'the last good file is past its cap: 24 hours of failures, or 7 days unconfirmed',
  too_many_domains:
    'the agents that name this domain name more than limits.provider_domains_per_upstream allows',
  over_budget:
    'files of this registrable domain, or of all domains that its agents name, take more than their share of limits.provider_bytes',
  pending: 'the file has not been fetched yet',
}

export type Verdict =
  | Authorized
  | { outcome: 'unauthorized'; reason: Unauthorized; hint?: string }
  | { outcome: 'unverifiable'; reason: Unverifiable }
  | { outcome: 'not_applicable' }

export type Policy = 'strict' | 'lenient' | 'observe'

/** Which verdicts let an offer into the feed (docs/decisions.md#trust), with an operator's exception per provider. */
export type PolicySettings = {
  readonly policy: Policy
  readonly providers: Readonly<Record<string, { readonly policy: Policy }>>
}

/** The policy in force for one provider. */
export function policyFor(settings: PolicySettings, domain: string): Policy {
  return Object.hasOwn(settings.providers, domain)
    ? (settings.providers[domain]?.policy ?? settings.policy)
    : settings.policy
}

/** Whether an offer with this verdict is published. Signals of no provider need no grant. */
export function publishable(verdict: Verdict, policy: Policy): boolean {
  if (verdict.outcome === 'authorized' || verdict.outcome === 'not_applicable') return true
  return policy === 'observe' || (policy === 'lenient' && verdict.outcome === 'unverifiable')
}

export type HeldDocument = {
  /** The url that answered, after redirects or a pointer. */
  readonly url: string
  readonly etag?: string
  readonly lastModified?: string
  readonly catalogEtag?: string
  readonly lastUpdated?: number
  /** When these bytes arrived, ms. */
  readonly fetchedAt: number
  /** SHA-256 of the bytes: equal digests mean equal rules. */
  readonly digest: string
  /** The JSON as it came, in shared memory. */
  readonly bytes: Uint8Array
  /** The tables made from it, ready for verdicts. */
  readonly tables: RuleTables
}

/** A changed pointer that is watched but not followed yet (docs/protocol.md#provider-files). */
type HeldPointer = { readonly url: string; readonly since: number; readonly adoptAt: number }

type Problem = {
  readonly reason: Unverifiable
  readonly message: string
  /** First time in this unbroken run of failures, ms. */
  readonly since: number
  /**
   * True for a fault: the last good document is kept for a while. False when the provider itself says that there is no file.
   */
  readonly passing: boolean
}

export type ProviderState = {
  readonly domain: string
  readonly document?: HeldDocument
  /** When there is a document: the instant at which it stops proving anything. */
  readonly expiresAt?: number
  /** Last time the document was fetched or confirmed, ms. */
  readonly confirmedAt?: number
  readonly heldPointer?: HeldPointer
  readonly problem?: Problem
  readonly nextAttemptAt?: number
}

/** The url of a file or a pointer for people: without its query, which may hold a credential for the file. */
export function shownFileUrl(url: string): string {
  return url.replace(/\?.*/s, '?…')
}

/** When a document last confirmed at `confirmedAt` stops proving anything, given the failure since then, if any. */
export function expiryOf(confirmedAt: number, problem: Problem | undefined): number {
  const hard = confirmedAt + HARD_CAP_MS
  return problem ? Math.min(hard, problem.since + STALE_CAP_MS) : hard
}

/** Why the provider proves nothing at `now`; undefined while a document is in force. */
function silence({ document, expiresAt = 0, problem }: ProviderState, now: number): Unverifiable | undefined {
  if (!document) return problem?.reason ?? 'pending'
  return now < expiresAt ? undefined : 'expired'
}

/** The same, only for reasons that leave the provider's signals undecided; undefined when somebody has decided. */
export function undecided(state: ProviderState, now: number): Undecided | undefined {
  const reason = silence(state, now)
  return reason && isUndecided(reason) ? reason : undefined
}

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
const opened = new WeakMap<RuleTables, Rules>()

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

/** Two equal stamps mean equal verdicts and definitions, whatever the two moments were. */
function stampOf({ digest, rules, expiresAt, reason }: CompiledProvider, nowMs: number): string {
  if (!rules || nowMs >= expiresAt) return reason
  return `${digest} ${rules.boundariesPassed(nowMs)}`
}

/** Verdicts and definitions at `nowMs`. A provider whose file has expired also defines nothing. */
function viewProvider(compiled: CompiledProvider, nowMs: number) {
  const { rules, expiresAt } = compiled
  const inForce = nowMs < expiresAt ? rules : undefined
  return {
    stamp: stampOf(compiled, nowMs),
    decide: (signalId: string, agentUrl: string) => decide(compiled, signalId, agentUrl, nowMs),
    definition: (signalId: string) => inForce && definitionOf(inForce, signalId),
  }
}

/** What one provider says at one moment. */
export type ProviderView = {
  /** Equal stamps mean equal answers from the members below, so a build can skip the provider's signals. */
  readonly stamp: string
  readonly policy: Policy
  decide(signalId: string, agentUrl: string): Verdict
  definition(signalId: string): Partial<SignalDefinition> | undefined
}

/** Gives what a provider says by its domain. */
export type Judge = (domain: string) => ProviderView

/** A domain that has not been looked at yet proves nothing. */
export const PENDING: CompiledProvider = { expiresAt: 0, reason: 'pending' }

/** The judge at `now`, ms: the moment for which verdicts hold. */
export function judgeAt(
  providers: Pick<ReadonlyMap<string, CompiledProvider>, 'get'>,
  settings: PolicySettings,
  now: number,
): Judge {
  return (domain) => {
    const view = viewProvider(providers.get(domain) ?? PENDING, now)
    const policy = policyFor(settings, domain)
    return { ...view, policy, stamp: `${policy} ${view.stamp}` }
  }
}

/**
 * The next moment at which time alone may change one of these providers' verdicts, ms; undefined when none will change.
 */
export function nextVerdictAt(
  providers: ReadonlyMap<string, CompiledProvider>,
  domains: readonly string[],
  now: number,
): number | undefined {
  let next: number | undefined
  for (const domain of domains) {
    const provider = providers.get(domain)
    const at = provider && nextBoundary(provider, now)
    if (at !== undefined && (next === undefined || at < next)) next = at
  }
  return next
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
