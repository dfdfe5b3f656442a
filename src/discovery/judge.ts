/**
 * Verdicts on the serving thread, for the few rows that only upstreams' answers hold. Files are compiled when a row
 * names their provider, and once.
 */
import { type CompiledProvider, compileProvider } from '../authz/decide.js'
import { policyFor } from '../authz/policy.js'
import type { ProviderState } from '../authz/state.js'
import { viewProvider } from '../authz/view.js'
import type { Judge } from '../feed/judge.js'

export type JudgeOptions = {
  /** Undefined for a domain that nobody asked about yet. */
  state(domain: string): ProviderState | undefined
  policy(): Parameters<typeof policyFor>[0]
  now(): number
}

/** Gives what providers say at the moment of asking. */
export function createJudge({ state, policy, now }: JudgeOptions): () => Judge {
  const compiled = new WeakMap<ProviderState, CompiledProvider>()

  function providerOf(domain: string): CompiledProvider {
    const held = state(domain)
    if (!held) return { domain, expiresAt: 0, reason: 'pending' }
    const known = compiled.get(held) ?? compileProvider(held)
    compiled.set(held, known)
    return known
  }

  return () => {
    const moment = now()
    return (domain) => {
      const view = viewProvider(providerOf(domain), moment)
      const rule = policyFor(policy(), domain)
      return { ...view, policy: rule, stamp: `${rule} ${view.stamp}` }
    }
  }
}
