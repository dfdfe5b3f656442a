/** What providers say now, for this thread: the questions of brief-only agents, the start table, explain. */
import { type CompiledProvider, compileProviders } from './authz/decide.js'
import { type PolicySettings, policyFor } from './authz/policy.js'
import type { Providers } from './authz/providers.js'
import { referencesFor } from './authz/references.js'
import { viewProvider } from './authz/view.js'
import type { Judge } from './feed/judge.js'
import type { Clock } from './net/clock.js'

export type VerdictsOptions = { providers: Providers; policy: () => PolicySettings; clock: Clock }

export type Verdicts = ReturnType<typeof createVerdicts>

export function createVerdicts({ providers, policy, clock }: VerdictsOptions) {
  let compiled = new Map<string, CompiledProvider>()

  /** A document is compiled once, however often it is asked about. */
  function current(): ReadonlyMap<string, CompiledProvider> {
    compiled = compileProviders(providers.states(), compiled)
    return compiled
  }

  function judge(): Judge {
    const known = current()
    const now = clock.now()
    return (domain) => {
      const provider = known.get(domain) ?? { domain, expiresAt: 0, reason: 'pending' as const }
      const view = viewProvider(provider, now)
      const applied = policyFor(policy(), domain)
      return { ...view, policy: applied, stamp: `${applied} ${view.stamp}` }
    }
  }

  return {
    judge,
    compiled: current,
    references: (agentUrl: string) => referencesFor(current(), agentUrl, clock.now()),
  }
}
