/** How the builder asks what a provider says: `authz` answers, in the worker or inline. */
import type { Policy, Verdict } from '../authz/verdict.js'
import type { Definition } from '../merge/definition.js'

/** One provider's word at one moment. */
export type ProviderView = {
  /** Equal stamps, equal answers below: what lets a build leave a provider's signals alone. */
  readonly stamp: string
  readonly policy: Policy
  decide(signalId: string, agentUrl: string): Verdict
  definition(signalId: string): Definition | undefined
}

export type Judge = (domain: string) => ProviderView
