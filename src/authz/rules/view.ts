/** One provider's word at one moment, for whoever merges: verdicts and definitions under one stamp. */
import { type CompiledProvider, decide } from './decide.js'
import { definitionOf } from './definition.js'

/** Equal stamps: every verdict and definition is the same, whenever the two moments were. */
function stampOf({ digest, rules, expiresAt, reason }: CompiledProvider, nowMs: number): string {
  if (!rules || nowMs >= expiresAt) return reason
  return `${digest} ${rules.boundariesPassed(nowMs)}`
}

/** Verdicts and definitions at `nowMs`. A provider that proves nothing any more defines nothing either. */
export function viewProvider(compiled: CompiledProvider, nowMs: number) {
  const { rules, expiresAt } = compiled
  const inForce = nowMs < expiresAt ? rules : undefined
  return {
    stamp: stampOf(compiled, nowMs),
    decide: (signalId: string, agentUrl: string) => decide(compiled, signalId, agentUrl, nowMs),
    definition: (signalId: string) => inForce && definitionOf(inForce, signalId),
  }
}
