/** The mirror of a scope, made of its setting, and how an agent is read that answers nobody without an account. */
import type { Clock } from '../../net/clock.js'
import { type AgentOutcome, type Arguments, callFailed } from '../agent/agent.js'
import { type Dialect, takes } from '../agent/dialect/dialect.js'
import { isOld } from '../agent/dialect/signatures.js'
import type { UpstreamFailure } from '../agent/status.js'
import { createMirror, type Mirror, type MirrorOptions, type MirrorOutcome } from './mirror.js'
import { PUBLIC, paceOf, type ScopeSetting } from './scope-setting.js'

/** Arguments with our own account must never bring in what is meant for that account alone. */
function openOnly(outcome: AgentOutcome): AgentOutcome {
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
 * For agents that answer no question without an account: we introduce ourselves as one more of their buyers, by a natural key
 * of our own (specification, "account"; docs/protocol.md#requests). Prices that they state for that account alone are not read,
 * because they are not for others. Refreshes; if that is refused, once more with our account. Other trouble can look the same.
 * Only when the agent refuses again without the account is it known that it needs one, and from then on `dialect` in the answer
 * says so.
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

type Means = Pick<MirrorOptions, 'referencesFor' | 'namesFor' | 'asked' | 'random' | 'share'> & {
  clock: Clock
  open: MirrorOptions['alike']
}

/** A new mirror for the scope. */
export function mirrorOf(
  { scope, entry, pace, contact }: ScopeSetting,
  { referencesFor, namesFor, asked, clock, random, open, share }: Means,
): Mirror {
  const isPublic = scope.name === PUBLIC
  const auth = scope.auth ?? entry.auth
  return createMirror({
    upstream: entry.id,
    agentUrl: entry.agentUrl,
    scope: scope.name,
    seeds: entry.seeds,
    ...paceOf(pace),
    ...{ referencesFor, namesFor },
    ...(isPublic && { asked }),
    async ask(task, args, speaking) {
      const outcome = await contact.read(task, args, speaking, auth)
      return isPublic && (args.account ?? speaking?.account) ? openOnly(outcome) : outcome
    },
    sleep: contact.sleep,
    ...{ now: clock.now, random },
    ...(share && { share }),
    ...(!isPublic && { alike: open }),
    ...(scope.account && { account: scope.account }),
  })
}
