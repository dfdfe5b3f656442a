/** What providers say now, for this thread: the questions of brief-only agents, the start table, explain. */
import type { SignalRef } from '../adcp/reference.js'
import type { Providers } from '../authz/provider/providers.js'
import { type CompiledProvider, compileProvider, compileProviders } from '../authz/rules/decide.js'
import type { PolicySettings } from '../authz/rules/policy.js'
import { namesFor, referencesFor } from '../authz/rules/references.js'
import type { Clock } from '../net/clock.js'
import { type Judge, judgeAt, pending } from '../snapshot/judge.js'

export type VerdictsOptions = { providers: Providers; policy: () => PolicySettings; clock: Clock }

export type Verdicts = ReturnType<typeof createVerdicts>

export function createVerdicts({ providers, policy, clock }: VerdictsOptions) {
  function provider(domain: string): CompiledProvider {
    const state = providers.state(domain)
    return state ? compileProvider(state) : pending(domain)
  }

  const judge = (): Judge => judgeAt({ get: provider }, policy(), clock.now())

  /** What an agent (canonical url) may sell, by every provider's file: only brief-only agents are asked about. */
  function references(agentUrl: string): SignalRef[] {
    return referencesFor(compileProviders(providers.states()), agentUrl, clock.now())
  }

  /** What providers call these signals. */
  function names(agentUrl: string): string[] {
    return namesFor(compileProviders(providers.states()), agentUrl, clock.now())
  }

  return { judge, provider, references, names }
}
