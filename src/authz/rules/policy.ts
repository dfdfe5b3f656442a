/** Which verdicts let an offer into the feed (docs/decisions.md#trust), with an operator's override per provider. */
import type { Policy, Verdict } from '../verdict.js'

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
