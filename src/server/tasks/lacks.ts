/**
 * What answers lack at the moment, worked out once a turn of the event loop: asking every upstream and registry how it
 * does, and putting it into words, would cost more than the rest of an answer of prepared bytes.
 */
import type { AdcpWarning } from '../../adcp/error.js'
import { staleWarnings } from '../../briefs/stale-warning.js'
import type { Gap } from '../../feed/gap.js'
import { type Health, type IncompleteEntry, incompleteOf } from '../../feed/incomplete.js'

export type Lacks = {
  incomplete: IncompleteEntry[] | undefined
  warnings: readonly AdcpWarning[]
  /** Equal for equal lacks. */
  name: string
}

export function createLacks(health: Health) {
  let known: Map<readonly Gap[], Map<string | undefined, Lacks>> | undefined

  function made(gaps: readonly Gap[], account: string | undefined, now: number): Lacks {
    const incomplete = incompleteOf({ gaps, health, account, scope: 'wholesale_feed', now })
    const warnings = staleWarnings(health.statuses())
    return { incomplete, warnings, name: JSON.stringify([incomplete, warnings]) }
  }

  /** What an answer from a snapshot with these gaps lacks for the reader of an account. */
  return (gaps: readonly Gap[], account: string | undefined, now: number): Lacks => {
    if (!known) {
      known = new Map()
      setImmediate(() => {
        known = undefined
      })
    }
    const ofGaps = known.get(gaps) ?? new Map<string | undefined, Lacks>()
    known.set(gaps, ofGaps)
    const lacks = ofGaps.get(account) ?? made(gaps, account, now)
    ofGaps.set(account, lacks)
    return lacks
  }
}
