/**
 * For whom a scope is read and how often; when a new setting means another reader, and when it needs another mirror.
 */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Arguments, Auth } from '../agent/agent.js'
import type { RosterEntry } from '../roster/roster.js'
import { packSlab } from '../rows/slab.js'
import type { Contact } from '../walk/contact.js'
import { credentialName } from '../walk/link.js'
import type { HeldSlice } from './mirror.js'

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

/** The name of the scope that everybody reads. */
export const PUBLIC = 'public'

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

/** Whether rows read with the one setting may be shown under the other. Tokens follow another rule. */
function isSameReader(a: ScopeSetting, b: ScopeSetting): boolean {
  if (a.scope.name === PUBLIC) return true
  const { account, credential } = ownerOf(a)
  const after = ownerOf(b)
  return account === after.account && (account !== undefined || credential === after.credential)
}

/** Whether the two ask another agent, or for somebody else. */
export const isOther = (a: ScopeSetting, b: ScopeSetting) => a.contact !== b.contact || a.scope !== b.scope

/** The part of what one setting read that the next one may use. */
export function takenOver(
  held: HeldSlice | undefined,
  before: ScopeSetting,
  next: ScopeSetting,
): HeldSlice | undefined {
  if (!held || !isSameReader(before, next)) return undefined
  return isOther(before, next) ? untokened(held) : held
}

/** Whether an account is told the same prices as everybody. */
export function isRateCard(held: HeldSlice | undefined, { scope }: ScopeSetting): boolean {
  return scope.name !== PUBLIC && held?.cacheScope === 'public'
}

/** The members of a pace and no others, so that two can be compared. */
export const paceOf = ({ pageSize, refreshMs, walkMs, dropAfterMs }: Pace) => ({
  ...{ pageSize, refreshMs, walkMs, dropAfterMs },
})

/** Whether both need the same mirror: what it knows of its last readings then stays valid. */
export function needsAnother(a: ScopeSetting, b: ScopeSetting): boolean {
  const madeOf = ({ entry: { id, seeds }, pace }: ScopeSetting) => [id, seeds, paceOf(pace)]
  return isOther(a, b) || !isDeepStrictEqual(madeOf(a), madeOf(b))
}

/** For whom a slice was read, as names and digests only. */
export type Owner = {
  /** Tokens of another credential prove nothing; without an account, neither do rows. */
  credential: string
  /** The account at the upstream; absent in the public scope, and when the credential alone identifies the reader. */
  account?: string
}

export type Key = { agentUrl: string; scope: string }
