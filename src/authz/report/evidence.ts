/**
 * Why a verdict is what it is, for people: the document it rests on, and the entries that matched or the exact reason.
 * Plain data; times as ISO 8601.
 */
import type { CompiledProvider } from '../rules/decide.js'
import type { Grant } from '../rules/rules.js'
import { type HeldDocument, type ProviderState, shownFileUrl } from '../rules/state.js'
import { VERDICT_REASONS, type Verdict } from '../rules/verdict.js'

export type GrantEvidence = {
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

function iso(ms: number): string {
  return new Date(ms).toISOString()
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
export function grantEvidence({ entry, from, until, countries }: Grant): GrantEvidence {
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
