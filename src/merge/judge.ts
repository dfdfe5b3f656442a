/** What the builder asks about a provider, and the judge that answers it from the providers' files at one moment. */
import { definitionOf } from '../authz/rules/provider-definition.js'
import {
  type CompiledProvider,
  decide,
  nextBoundary,
  type Policy,
  type PolicySettings,
  policyFor,
  type Verdict,
} from '../authz/rules/verdict.js'
import type { Definition } from './definition.js'

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
  definition(signalId: string): Definition | undefined
}

export type Judge = (domain: string) => ProviderView

type Providers = ReadonlyMap<string, CompiledProvider>

/** A domain that has not been looked at yet proves nothing. */
export const PENDING: CompiledProvider = { expiresAt: 0, reason: 'pending' }

/** `now` in ms: the moment for which verdicts hold. */
export function judgeAt(providers: Pick<Providers, 'get'>, settings: PolicySettings, now: number): Judge {
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
  providers: Providers,
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
