/**
 * For whom the prices of one upstream are. When nothing was asked for a buyer, prices that the agent calls an account's are those of
 * our credential, whichever task brought them. Everybody sees them only if the operator allows it (docs/upstreams.md, "Prices
 * for accounts only").
 */
import { isRecord } from '../../adcp/json.js'
import { inOwnTurns } from '../../process/portion-turns.js'
import type { AgentOutcome, Payload } from '../agent/agent.js'
import type { RosterEntry } from '../roster/roster.js'
import { bareAnswer } from '../rows/bare-rows.js'
import { credentialName } from './link.js'

/** Whether prices that were told to a credential alone are for everybody: as the entry of the agent says now, for its credential. */
export function showsPrices(pricedFor: string | undefined, { auth, accountPrices }: RosterEntry): boolean {
  return pricedFor === undefined || (accountPrices === 'public' && pricedFor === credentialName(auth))
}

/** Whether an answer says that its rows are for an account, beside them or in the result of a task; undefined when it does not say. */
function isForAccount({ cache_scope: told, result }: Payload): boolean | undefined {
  const scopes = [told, isRecord(result) ? result.cache_scope : undefined].filter(
    (scope) => typeof scope === 'string',
  )
  return scopes.length > 0 ? scopes.includes('account') : undefined
}

export function createAccountPrices(entry: RosterEntry) {
  const credential = credentialName(entry.auth)
  let isPersonal: boolean | undefined // by what it said last

  return {
    /** What everybody may be shown of an answer that was asked for with our credential and for no buyer. */
    async shared(outcome: AgentOutcome): Promise<AgentOutcome> {
      if (outcome.kind !== 'answer') return outcome
      isPersonal = isForAccount(outcome.payload) ?? isPersonal
      if (!isPersonal) return outcome
      const { rows } = outcome
      const shown = showsPrices(credential, entry)
        ? { ...rows, pricedFor: credential }
        : await inOwnTurns(bareAnswer(rows, ['pricing']))
      return { ...outcome, rows: shown }
    },
    /**
     * For an agent that gives prices to accounts only: whether they are shown to everybody all the same. `before`: what an earlier
     * process was told.
     */
    told: (before: boolean): 'public' | 'withheld' | undefined =>
      (isPersonal ?? before) ? (entry.accountPrices ?? 'withheld') : undefined,
  }
}
