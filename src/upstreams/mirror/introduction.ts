/**
 * For agents that answer no question without an account. We introduce ourselves as one more of their buyers, by a
 * natural key of our own (specification, "account"; docs/protocol.md#requests). Prices that they state for that account
 * alone are not read, because they are not for others.
 */
import { type AgentOutcome, type Arguments, callFailed } from '../agent/agent.js'
import { type Dialect, takes } from '../agent/dialect/dialect.js'
import { isOld } from '../agent/dialect/signatures.js'
import type { UpstreamFailure } from '../agent/status.js'
import type { MirrorOutcome } from './mirror.js'

/** Arguments with our own account must never bring in what is meant for that account alone. */
export function openOnly(outcome: AgentOutcome): AgentOutcome {
  const isPersonal = outcome.kind === 'answer' && outcome.payload.cache_scope === 'account'
  return isPersonal
    ? callFailed('account_needed', 'it answers with prices that are for that account alone')
    : outcome
}

const REFUSED: ReadonlySet<UpstreamFailure> = new Set(['agent_error', 'account_needed'])

type IntroductionOptions = {
  dialect: Dialect
  account: Arguments
  refresh(dialect: Dialect): Promise<MirrorOutcome>
}

/**
 * Refreshes; if that is refused, once more with our account. Other trouble can look the same. Only when the agent
 * refuses again without the account is it known that it needs one, and from then on `dialect` in the answer says so.
 */
export async function refreshIntroduced({
  dialect,
  account,
  refresh,
}: IntroductionOptions): Promise<{ outcome: MirrorOutcome; dialect: Dialect }> {
  const plain = await refresh(dialect)
  const takesAccount = !isOld(dialect.release) && takes(dialect, 'get_signals', 'account')
  if (plain.kind !== 'failed' || !REFUSED.has(plain.reason) || dialect.account || !takesAccount) {
    return { outcome: plain, dialect }
  }
  const introduced = { ...dialect, account }
  const known = await refresh(introduced)
  if (known.kind === 'failed') {
    const isForAccounts = [plain.reason, known.reason].includes('account_needed')
    const message = `${plain.message}; asked again with the account of a new buyer (${account.operator}), ${known.message}`
    return { outcome: isForAccounts ? { ...plain, reason: 'account_needed', message } : plain, dialect }
  }
  const again = await refresh(dialect)
  return again.kind === 'failed' ? { outcome: known, dialect: introduced } : { outcome: again, dialect }
}
