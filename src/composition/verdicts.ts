/** What providers say now, for this thread: the start table, explain. */
import type { Providers } from '../authz/provider/providers.js'
import { type CompiledProvider, compileProvider } from '../authz/rules/decide.js'
import type { PolicySettings } from '../authz/rules/verdict.js'
import { type Judge, judgeAt, pending } from '../merge/judge.js'
import type { Clock } from '../net/clock.js'

export type VerdictsOptions = { providers: Providers; policy: () => PolicySettings; clock: Clock }

export type Verdicts = ReturnType<typeof createVerdicts>

export function createVerdicts({ providers, policy, clock }: VerdictsOptions) {
  function provider(domain: string): CompiledProvider {
    const state = providers.state(domain)
    return state ? compileProvider(state) : pending(domain)
  }

  const judge = (): Judge => judgeAt({ get: provider }, policy(), clock.now())

  return { judge, provider }
}
