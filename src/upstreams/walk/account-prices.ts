/**
 * For whom the prices of one upstream are. When nothing was asked for a buyer, prices that the agent calls an account's are those of
 * our credential, whichever task brought them. Everybody sees them only if the operator allows it (docs/upstreams.md, "Prices
 * for accounts only").
 */
import { isRecord } from '../../adcp/json.js'
import { inOwnTurns } from '../../process/portion-turns.js'
import type { AgentOutcome, Payload } from '../agent/agent.js'
import type { RosterEntry } from '../roster/roster.js'
import { bareAnswer, bareRows } from '../rows/bare-rows.js'
import type { Collected } from '../rows/new-slice.js'
import type { ReadRows } from '../rows/read-rows.js'
import type { LearntStore } from './learnt.js'
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

/** What it says holds for later answers that do not say, also in other processes and later ones. */
export function createAccountPrices(
  entry: RosterEntry,
  learnt: Pick<LearntStore, 'loadPrices' | 'savePrices'>,
) {
  const { agentUrl } = entry
  const credential = credentialName(entry.auth)
  let areForAccount: boolean | undefined // by what it said last; while that is not known, only a reading can tell

  function learn(is: boolean): void {
    if (areForAccount === is) return
    areForAccount = is
    learnt.savePrices(agentUrl, { credential, areForAccount: is })
  }

  /** Takes up what was learnt with the same credential, here or elsewhere. */
  async function recall(): Promise<void> {
    const known = await learnt.loadPrices(agentUrl)
    if (known?.credential === credential) areForAccount = known.areForAccount
  }

  async function withheld(rows: ReadRows): Promise<ReadRows> {
    if (showsPrices(credential, entry)) return { ...rows, pricedFor: credential }
    return await inOwnTurns(bareAnswer(rows, ['pricing']))
  }

  return {
    /** What everybody may be shown of an answer to a call that was made with our credential and for no buyer. */
    async shared(outcome: AgentOutcome): Promise<AgentOutcome> {
      if (outcome.kind !== 'answer') return outcome
      const said = isForAccount(outcome.payload)
      if (said !== undefined) learn(said)
      else if (outcome.rows.elements > 0) await recall()
      return (said ?? areForAccount) === false ? outcome : { ...outcome, rows: await withheld(outcome.rows) }
    },
    /** The same of an answer within a reading. Where it does not say, what the whole reading says decides: `settled`. */
    async read(outcome: AgentOutcome): Promise<AgentOutcome> {
      if (outcome.kind !== 'answer') return outcome
      const said = isForAccount(outcome.payload)
      if (said !== undefined) learn(said)
      if (areForAccount) return { ...outcome, rows: await withheld(outcome.rows) }
      return said === undefined ? { ...outcome, rows: { ...outcome.rows, isUnsaid: true } } : outcome
    },
    recall,
    /** What everybody may be shown of all that a reading brought. */
    async settled<T extends Collected>(found: T): Promise<T> {
      if (!found.isUnsaid || !areForAccount) return found
      if (showsPrices(credential, entry)) return { ...found, pricedFor: credential }
      return { ...found, ...(await bareRows(found, ['pricing'])) }
    },
    /** The agent has been read: where it never said for whom its prices are, they are for everybody, or as `before` says. */
    async concluded(before: boolean): Promise<void> {
      if (areForAccount === undefined) await recall()
      if (areForAccount === undefined) learn(before)
    },
    /**
     * For an agent that gives prices to accounts only: whether they are shown to everybody all the same. `before`: what an earlier
     * process was told.
     */
    told: (before: boolean): 'public' | 'withheld' | undefined =>
      (areForAccount ?? before) ? (entry.accountPrices ?? 'withheld') : undefined,
  }
}

export type AccountPrices = ReturnType<typeof createAccountPrices>
