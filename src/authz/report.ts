/**
 * Verdicts and providers' files for people: the document that a verdict rests on, with the entries that matched or the exact
 * reason, and a whole file as Tributary reads it (`tributary authz`): signals, grants, coverage per agent, diagnostics, and
 * the entry that would authorize an agent. Plain data; times as ISO 8601.
 */
import { firstOf, howMany } from '../adcp/answer.js'
import { canonicalUrl } from '../adcp/url.js'
import { diagnoseDefinition } from './rules/provider-definition.js'
import type { Grant, PublishedSignal, Rules } from './rules/rules.js'
import type { Diagnostic } from './rules/tables.js'
import {
  type CompiledProvider,
  decide,
  type HeldDocument,
  type ProviderState,
  shownFileUrl,
  type Unverifiable,
  VERDICT_REASONS,
  type Verdict,
} from './rules/verdict.js'

const MAX_AGENTS = 100 // each is checked against every signal
const MAX_DIAGNOSTICS = 500
const MAX_NAMES = 5 // in one line of the terminal

/** A moment, ms since the epoch, in ISO 8601. */
export function iso(ms: number): string {
  return new Date(ms).toISOString()
}

type GrantEvidence = {
  /** RFC 6901 pointer to the entry in the provider's file. */
  at: string
  from?: string
  until?: string
  countries?: readonly string[]
}

type DocumentEvidence = {
  url: string
  validator?: { kind: 'catalog_etag' | 'etag' | 'last_modified'; value: string }
  sha256: string
  lastUpdated?: string
  fetchedAt: string
  confirmedAt: string
  expiresAt: string
}

export type ProviderEvidence = {
  provider: string
  document?: DocumentEvidence
  heldPointer?: { url: string; since: string; adoptAt: string }
  problem?: { reason: string; message: string; since: string }
}

export type Evidence = ProviderEvidence & {
  outcome: Verdict['outcome']
  reason?: string
  explanation: string
  hint?: string
  countries?: readonly string[]
  grants: readonly GrantEvidence[]
}

function validatorOf({ catalogEtag, etag, lastModified }: HeldDocument): DocumentEvidence['validator'] {
  if (catalogEtag) return { kind: 'catalog_etag', value: catalogEtag }
  if (etag) return { kind: 'etag', value: etag }
  return lastModified ? { kind: 'last_modified', value: lastModified } : undefined
}

/** What is held of a provider, and its state. */
export function providerEvidence(state: ProviderState): ProviderEvidence {
  const { domain, document, confirmedAt = 0, expiresAt = 0, heldPointer, problem } = state
  const validator = document && validatorOf(document)
  return {
    provider: domain,
    ...(document && {
      document: {
        url: shownFileUrl(document.url),
        ...(validator && { validator }),
        sha256: document.digest,
        ...(document.lastUpdated !== undefined && { lastUpdated: iso(document.lastUpdated) }),
        fetchedAt: iso(document.fetchedAt),
        confirmedAt: iso(confirmedAt),
        expiresAt: iso(expiresAt),
      },
    }),
    ...(heldPointer && {
      heldPointer: {
        url: shownFileUrl(heldPointer.url),
        since: iso(heldPointer.since),
        adoptAt: iso(heldPointer.adoptAt),
      },
    }),
    ...(problem && {
      problem: { reason: problem.reason, message: problem.message, since: iso(problem.since) },
    }),
  }
}

/** One entry, with the limits it puts on a grant. */
function grantEvidence({ entry, from, until, countries }: Grant): GrantEvidence {
  return {
    at: `/authorized_agents/${entry}`,
    ...(Number.isFinite(from) && { from: iso(from) }),
    ...(Number.isFinite(until) && { until: iso(until) }),
    ...(countries && { countries }),
  }
}

/** The evidence for a verdict of `decide` about this provider. */
export function evidenceOf(state: ProviderState, compiled: CompiledProvider, verdict: Verdict): Evidence {
  const base = providerEvidence(state)
  if (verdict.outcome === 'authorized') {
    const { outcome, entries, countries } = verdict
    const grants = entries.flatMap((entry) => compiled.rules?.grantOfEntry(entry) ?? []).map(grantEvidence)
    const explanation = "the provider's file authorizes this agent for this signal"
    return { ...base, outcome, explanation, ...(countries && { countries }), grants }
  }
  if (verdict.outcome === 'not_applicable') {
    const explanation = 'the signal is not published by a data provider: nobody has to authorize it'
    return { ...base, outcome: verdict.outcome, explanation, grants: [] }
  }
  const { outcome, reason } = verdict
  const hint = verdict.outcome === 'unauthorized' ? verdict.hint : undefined
  return { ...base, outcome, reason, explanation: VERDICT_REASONS[reason], ...(hint && { hint }), grants: [] }
}

type ReportedGrant = GrantEvidence & {
  agent: string
  by: 'signal_ids' | 'signal_tags'
  names: readonly string[]
}

type Coverage = {
  agent: string
  listed: boolean
  /** How many of the published signals the agent may sell now. */
  authorized: number
  published: number
  hint?: string
}

type ProviderReport = ProviderEvidence & {
  /** Why the file proves nothing at this time; absent when it does. */
  unverifiable?: Unverifiable
  signals: readonly { id: string; name?: string; valueType?: string; tags: readonly string[] }[]
  grants: readonly ReportedGrant[]
  coverage: readonly Coverage[]
  diagnostics: readonly Diagnostic[]
  /** Diagnostics and agents that the lists had no room for. */
  more: { diagnostics: number; agents: number }
}

/** The entry to add to `authorized_agents[]`. */
type AgentEntry = { url: string; authorized_for: string } & (
  | { authorization_type: 'signal_ids'; signal_ids: readonly string[] }
  | { authorization_type: 'signal_tags'; signal_tags: readonly string[] }
)

function reportGrants(rules: Rules): ReportedGrant[] {
  const byEntry = new Map<number, ReportedGrant & { names: string[] }>()
  for (const { agent, by, name, grants } of rules.namedGrants()) {
    for (const grant of grants) {
      const known = byEntry.get(grant.entry)
      if (known) known.names.push(name)
      else byEntry.set(grant.entry, { ...grantEvidence(grant), agent, by, names: [name] })
    }
  }
  return [...byEntry].sort(([a], [b]) => a - b).map(([, grant]) => grant)
}

function reportCoverage(compiled: CompiledProvider, rules: Rules, agent: string, nowMs: number): Coverage {
  let authorized = 0
  for (let number = 0; number < rules.signalCount; number += 1) {
    if (decide(compiled, rules.signalId(number), agent, nowMs).outcome === 'authorized') authorized += 1
  }
  const listed = rules.agentNumber(agent) >= 0
  const hint = listed ? undefined : rules.nearMiss(agent)
  return { agent, listed, authorized, published: rules.signalCount, ...(hint && { hint }) }
}

/** Granted names that no published signal has: such a grant is void, usually because of a typing error. */
function danglingNames(signals: readonly PublishedSignal[], grants: readonly ReportedGrant[]): Diagnostic[] {
  const ids = new Set(signals.map(({ id }) => id))
  const tags = new Set(signals.flatMap((signal) => signal.tags))
  return grants.flatMap(({ at, by, names }) => {
    const known = by === 'signal_ids' ? ids : tags
    const dangling = names.filter((name) => !known.has(name)).length
    const message = `${dangling} of ${names.length} ${by} match no published signal`
    return dangling > 0 ? [{ at, effect: 'noted' as const, message }] : []
  })
}

function describeSignals(signals: readonly PublishedSignal[]): ProviderReport['signals'] {
  return signals.map(({ id, tags, row }) => ({
    id,
    tags,
    ...(typeof row.name === 'string' && { name: row.name }),
    ...(typeof row.value_type === 'string' && { valueType: row.value_type }),
  }))
}

/** The provider at `nowMs`; `agents` are reported besides those that the file lists. */
export function reportProvider(
  state: ProviderState,
  compiled: CompiledProvider,
  nowMs: number,
  agents: readonly string[] = [],
): ProviderReport {
  const { rules, expiresAt, reason } = compiled
  const unverifiable = rules && nowMs < expiresAt ? undefined : { unverifiable: reason }
  const base = { ...providerEvidence(state), ...unverifiable }
  if (!rules) {
    return {
      ...base,
      signals: [],
      grants: [],
      coverage: [],
      diagnostics: [],
      more: { diagnostics: 0, agents: 0 },
    }
  }
  const grants = reportGrants(rules)
  const signals = Array.from({ length: rules.signalCount }, (_, number) => rules.signal(number))
  const every = [...new Set([...agents, ...rules.agentUrls()])]
  const diagnostics = [
    ...rules.diagnostics,
    ...danglingNames(signals, grants),
    ...signals.flatMap(diagnoseDefinition),
  ]
  return {
    ...base,
    signals: describeSignals(signals),
    grants,
    coverage: every.slice(0, MAX_AGENTS).map((agent) => reportCoverage(compiled, rules, agent, nowMs)),
    diagnostics: diagnostics.slice(0, MAX_DIAGNOSTICS),
    more: {
      diagnostics: rules.moreDiagnostics + Math.max(0, diagnostics.length - MAX_DIAGNOSTICS),
      agents: Math.max(0, every.length - MAX_AGENTS),
    },
  }
}

/**
 * The entry that authorizes the agent for signals by id or by tag. Throws a RangeError when the url is not an http
 * or https url, or no name is given: an entry without names is invalid and grants nothing.
 */
export function entryFor(
  agentUrl: string,
  grant: { ids: readonly string[] } | { tags: readonly string[] },
  label: string,
): AgentEntry {
  const url = canonicalUrl(agentUrl)
  if (!url) throw new RangeError('expected the http or https url of an agent')
  const names = 'ids' in grant ? grant.ids : grant.tags
  if (names.length === 0) throw new RangeError('expected at least one signal id or tag')
  const base = { url, authorized_for: label }
  return 'ids' in grant
    ? { ...base, authorization_type: 'signal_ids', signal_ids: names }
    : { ...base, authorization_type: 'signal_tags', signal_tags: names }
}

function plain(text: string): string {
  return text.replace(/\p{C}/gu, '\ufffd').slice(0, 120)
}

const some = (names: readonly string[]) => firstOf(MAX_NAMES, names)

function documentLines({ document, heldPointer, problem, unverifiable }: ProviderReport): string[] {
  const lines: string[] = []
  if (unverifiable) lines.push(`  unverifiable (${unverifiable}): ${VERDICT_REASONS[unverifiable]}`)
  if (document) {
    const { url, validator, fetchedAt, confirmedAt, expiresAt } = document
    lines.push(`  file        ${url}`)
    if (validator) lines.push(`  validator   ${validator.kind} ${plain(validator.value)}`)
    lines.push(`  fetched     ${fetchedAt}, confirmed ${confirmedAt}, good until ${expiresAt}`)
  }
  if (problem) lines.push(`  problem     ${problem.reason} since ${problem.since}: ${problem.message}`)
  if (heldPointer) lines.push(`  on hold     pointer to ${heldPointer.url} until ${heldPointer.adoptAt}`)
  return lines
}

/**
 * The whole report as lines for a terminal, control characters removed: the file, its signals, its grants, how many
 * signals each agent may sell, and what is wrong.
 */
export function renderReport(report: ProviderReport): string[] {
  const { provider, signals, grants, coverage, diagnostics, more } = report
  const lines = [provider, ...documentLines(report), '', `Signals: ${signals.length}`]
  for (const { id, name, valueType, tags } of signals) {
    const described = [valueType && plain(valueType), name && plain(name)].filter(Boolean).join(', ')
    lines.push(`  ${id}  ${described}${tags.length > 0 ? `  [${some(tags)}]` : ''}`)
  }
  lines.push('', `Grants: ${grants.length}`)
  for (const { at, agent, by, names, from, until, countries } of grants) {
    const window = from || until ? `, ${from ?? 'ever'} to ${until ?? 'ever'}` : ''
    const where = countries ? `, in ${some(countries)}` : ''
    lines.push(`  ${at}  ${agent}  ${by}: ${some(names)}${window}${where}`)
  }
  lines.push('', 'Agents:')
  for (const { agent, authorized, published, hint } of coverage) {
    lines.push(`  ${agent}  ${authorized} of ${howMany(published, 'signal')}${hint ? `  (${hint})` : ''}`)
  }
  if (more.agents > 0) lines.push(`  and ${more.agents} more`)
  lines.push('', diagnostics.length === 0 ? 'No diagnostics.' : 'Diagnostics:')
  for (const { at, effect, message } of diagnostics) lines.push(`  ${effect}  ${at}  ${message}`)
  if (more.diagnostics > 0) lines.push(`  and ${more.diagnostics} more`)
  return lines
}
