/**
 * Agents that answer no question without an account. They are read as one more of their buyers: us, by a natural key
 * (specification, "account"; docs/protocol.md#requests). What they price for that account alone is nobody else's and
 * is not read.
 */
import { type AgentOutcome, type Arguments, callFailed } from '../agent/agent.js'
import { type Dialect, takes } from '../agent/dialect/dialect.js'
import { isOld } from '../agent/dialect/signatures.js'
import type { MirrorOutcome } from './mirror.js'

/** Arguments that carry our own account never bring in what is meant for it alone. */
export function openOnly(outcome: AgentOutcome): AgentOutcome {
  const isPersonal = outcome.kind === 'answer' && outcome.payload.cache_scope === 'account'
  return isPersonal
    ? callFailed('unauthorized', 'it answers accounts only, each with its own prices')
    : outcome
}

type IntroductionOptions = {
  dialect: Dialect
  account: Arguments
  refresh(dialect: Dialect): Promise<MirrorOutcome>
}

/**
 * Refreshes; where that is refused, once more with our account. A bad moment can look the same: only when it is refused
 * again without the account is it known that the agent needs one, and `dialect` in the answer says so from then on.
 */
export async function refreshIntroduced({
  dialect,
  account,
  refresh,
}: IntroductionOptions): Promise<{ outcome: MirrorOutcome; dialect: Dialect }> {
  const plain = await refresh(dialect)
  const isRefused = plain.kind === 'failed' && plain.reason === 'agent_error'
  const takesAccount = !isOld(dialect.release) && takes(dialect, 'get_signals', 'account')
  if (!isRefused || dialect.account || !takesAccount) return { outcome: plain, dialect }
  const introduced = { ...dialect, account }
  const known = await refresh(introduced)
  if (known.kind === 'failed') return { outcome: plain, dialect }
  const again = await refresh(dialect)
  return again.kind === 'failed' ? { outcome: known, dialect: introduced } : { outcome: again, dialect }
}
