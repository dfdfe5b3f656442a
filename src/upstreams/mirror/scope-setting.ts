/**
 * For whom a scope is read and how often; when a new setting means another reader, and when it needs another mirror. The mirror
 * made of a setting, and how an agent is read that answers nobody without an account.
 */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../net/clock.js'
import {
  type AgentOutcome,
  type Arguments,
  type Auth,
  callFailed,
  type UpstreamFailure,
} from '../agent/agent.js'
import { type Dialect, takes } from '../agent/dialect.js'
import { isOld } from '../agent/tool-inputs.js'
import type { RosterEntry } from '../roster/roster.js'
import { packSlab } from '../rows/slab.js'
import { PARTS, type Slice, sameDigests } from '../rows/slice.js'
import type { Contact } from '../walk/contact.js'
import { credentialName } from '../walk/link.js'
import {
  createMirror,
  type HeldSlice,
  type Mirror,
  type MirrorOptions,
  type MirrorOutcome,
} from './mirror.js'

/** The name of the scope that everybody reads. */
export const PUBLIC = 'public'

const REFUSED: ReadonlySet<UpstreamFailure> = new Set(['agent_error', 'account_needed'])

/** For whom an upstream is read. */
export type Scope = {
  /** `public`, or an opaque name of a caller's account. */
  name: string
  /** Whose account it is; undefined for the public scope. */
  caller?: string
  /** The caller's own credential for this upstream. */
  auth?: Auth
  /** The upstream's account reference. */
  account?: Arguments
}

export type Pace = {
  timeoutMs: number
  refreshMs: number
  staleAfterMs: number
  dropAfterMs: number
  pageSize: number
  /** For one walk of a feed from its first page to its last. */
  walkMs: number
}

/** The settings of a scope; new ones can be applied while it runs. */
export type ScopeSetting = {
  scope: Scope
  entry: RosterEntry
  pace: Pace
  /** Our own account, for agents that require one of everybody. */
  introduction: Arguments
  contact: Contact
}

/** For whom a slice was read, as names and digests only. */
export type Owner = {
  /** Tokens of another credential prove nothing; without an account, neither do rows. */
  credential: string
  /** The account at the upstream; absent in the public scope, and when the credential alone identifies the reader. */
  account?: string
}

export type Key = { agentUrl: string; scope: string }

/** What is held for an account with the public rate card: no rows of its own. */
export function rateCard({ id, agentUrl }: RosterEntry, scope: string, now: number): HeldSlice {
  const slice = {
    ...{ upstream: id, agentUrl, scope, mode: 'wholesale' as const },
    ...{ rows: packSlab([]), digests: new BigUint64Array(new SharedArrayBuffer(0)), dropped: {} },
    walkedAt: now,
  }
  return { slice, domains: [], confirmedAt: now, cacheScope: 'public' }
}

/** Tokens belong to the credential with which they were received. */
export function untokened({ slice, ...rest }: HeldSlice): HeldSlice {
  const { feedVersion, pricingVersion, ...plain } = slice
  return { ...rest, slice: plain }
}

/** What was saved of it. Whether prices for accounts were among public rows depended on the configuration of that time. */
export const usedAgain = (saved: HeldSlice, { scope }: ScopeSetting): HeldSlice =>
  scope.name === PUBLIC && saved.cacheScope === 'account' ? untokened(saved) : saved

const credentialOf = ({ scope, entry }: ScopeSetting): Auth => scope.auth ?? entry.auth

/** Whose slice it is: a slice of another credential or account is not used. */
export function ownerOf(setting: ScopeSetting): Owner {
  const { account } = setting.scope
  const credential = credentialName(credentialOf(setting))
  return { credential, ...(account && { account: hash('sha256', JSON.stringify(account)) }) }
}

/** The same under another id of its upstream. */
export function withId(held: HeldSlice, id: string): HeldSlice {
  return held.slice.upstream === id ? held : { ...held, slice: { ...held.slice, upstream: id } }
}

/**
 * Whether rows of `scope` that were read for `owner` may be shown to `reader`: an account's rows are for that account alone,
 * public rows are the same with any credential. Tokens follow another rule.
 */
export function mayRead(scope: string, owner: Owner, reader: Owner): boolean {
  if (scope === PUBLIC) return true
  if (owner.account !== reader.account) return false
  return reader.account !== undefined || owner.credential === reader.credential
}

/** Whether the two ask another agent, or for somebody else. */
export const isOther = (a: ScopeSetting, b: ScopeSetting) => a.contact !== b.contact || a.scope !== b.scope

/** The part of what one setting read that the next one may use. */
export function takenOver(
  held: HeldSlice | undefined,
  before: ScopeSetting,
  next: ScopeSetting,
): HeldSlice | undefined {
  if (!held || !mayRead(before.scope.name, ownerOf(before), ownerOf(next))) return undefined
  return isOther(before, next) ? untokened(held) : held
}

/** Whether an account is told the same prices as everybody. */
export function isRateCard(held: HeldSlice | undefined, { scope }: ScopeSetting): boolean {
  return scope.name !== PUBLIC && held?.cacheScope === 'public'
}

/** Which parts are missing, and of which the last ones stand. */
const missingParts = ({ outages }: Slice) => PARTS.map((part) => outages?.[part] && outages[part] > 0)

/**
 * Whether a feed changes with it, or what is told of it. The rate card has no rows, and nor may what an account is offered: these
 * are not the same.
 */
export function isNews(before: HeldSlice | undefined, next: HeldSlice, setting: ScopeSetting): boolean {
  if (before?.slice.mode !== next.slice.mode) return true
  if (isRateCard(before, setting) !== isRateCard(next, setting)) return true
  if (!isDeepStrictEqual(missingParts(before.slice), missingParts(next.slice))) return true
  return !sameDigests(before.slice.digests, next.slice.digests)
}

/** Whether the same rows came under other tokens, with other parts missing, or with prices for others: then what is saved of them is another. */
export function isRetold(before: Slice | undefined, next: Slice): boolean {
  return (
    next.feedVersion !== before?.feedVersion ||
    next.pricingVersion !== before?.pricingVersion ||
    next.pricedFor !== before?.pricedFor ||
    !isDeepStrictEqual(next.outages, before?.outages)
  )
}

/** The members of a pace and no others, so that two can be compared. */
const paceOf = ({ pageSize, refreshMs, walkMs, dropAfterMs }: Pace) => ({
  ...{ pageSize, refreshMs, walkMs, dropAfterMs },
})

/** Whether both need the same mirror: what it knows of its last readings then stays valid. */
export function needsAnother(a: ScopeSetting, b: ScopeSetting): boolean {
  const madeOf = ({ entry: { id, seeds }, pace }: ScopeSetting) => [id, seeds, paceOf(pace)]
  return isOther(a, b) || !isDeepStrictEqual(madeOf(a), madeOf(b))
}

/** Arguments with our own account must never bring in what is meant for that account alone. */
function openOnly(outcome: AgentOutcome): AgentOutcome {
  const isPersonal = outcome.kind === 'answer' && outcome.payload.cache_scope === 'account'
  return isPersonal
    ? callFailed('account_needed', 'it answers with prices that are for that account alone')
    : outcome
}

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

/** Reads the public scope. An agent that gives no feed has been read as well when all questions have been asked. */
async function readOpenly({ prices }: Contact, read: () => Promise<MirrorOutcome>): Promise<MirrorOutcome> {
  await prices.recall()
  const outcome = await read()
  if (outcome.kind !== 'failed' || outcome.reason === 'not_enumerable') {
    await prices.concluded('held' in outcome && outcome.held.cacheScope === 'account')
  }
  return outcome
}

/** A new mirror for the scope. */
export function mirrorOf(
  setting: ScopeSetting,
  { referencesFor, namesFor, asked, clock, random, open, share }: Means,
): Mirror {
  const { scope, entry, pace, contact } = setting
  const isPublic = scope.name === PUBLIC
  const auth = credentialOf(setting)
  const mirror = createMirror({
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
    ...(isPublic && { settled: contact.prices.settled }),
    sleep: contact.sleep,
    ...{ now: clock.now, random, share },
    ...(!isPublic && { alike: open }),
    ...(scope.account && { account: scope.account }),
  })
  return isPublic ? { refresh: (...asked) => readOpenly(contact, () => mirror.refresh(...asked)) } : mirror
}
