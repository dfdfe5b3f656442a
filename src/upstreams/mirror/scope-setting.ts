/** In whose name a scope is read and at what pace; when another setting is another reader's, and when it needs another mirror. */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Arguments, Auth } from '../agent/agent.js'
import type { RosterEntry } from '../roster/roster.js'
import { packSlab } from '../rows/slab.js'
import type { Contact } from '../walk/contact.js'
import { credentialName } from '../walk/link.js'
import type { HeldSlice } from './mirror.js'

/** What is held of an account that is priced off the rate card: no row of its own. */
export function rateCard({ id, agentUrl }: RosterEntry, scope: string, now: number): HeldSlice {
  const slice = {
    ...{ upstream: id, agentUrl, scope, mode: 'wholesale' as const },
    ...{ rows: packSlab([]), digests: new BigUint64Array(new SharedArrayBuffer(0)), dropped: {} },
    walkedAt: now,
  }
  return { slice, domains: [], confirmedAt: now, cacheScope: 'public' }
}

/** Tokens belong to the credential that they came with. */
export function untokened({ slice, ...rest }: HeldSlice): HeldSlice {
  const { feedVersion, pricingVersion, ...plain } = slice
  return { ...rest, slice: plain }
}

/** The name of the scope that everybody reads. */
export const PUBLIC = 'public'

/** Whose eyes an upstream is read with. */
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

/** What a scope is kept with; another one takes effect while it runs. */
export type ScopeSetting = {
  scope: Scope
  entry: RosterEntry
  pace: Pace
  /** Ours, for agents that answer nobody without one. */
  introduction: Arguments
  contact: Contact
}

const credentialOf = ({ scope, entry }: ScopeSetting): Auth => scope.auth ?? entry.auth

export function ownerOf(setting: ScopeSetting): Owner {
  const { account } = setting.scope
  const credential = credentialName(credentialOf(setting))
  return { credential, ...(account && { account: hash('sha256', JSON.stringify(account)) }) }
}

/** The same under another id of its upstream. */
export function withId(held: HeldSlice, id: string): HeldSlice {
  return held.slice.upstream === id ? held : { ...held, slice: { ...held.slice, upstream: id } }
}

/** Whether rows that were read for the one may be shown to the other. Tokens are another matter. */
function isSameReader(a: ScopeSetting, b: ScopeSetting): boolean {
  if (a.scope.name === PUBLIC) return true
  const { account, credential } = ownerOf(a)
  const after = ownerOf(b)
  return account === after.account && (account !== undefined || credential === after.credential)
}

/** They ask another agent, or in another name. */
export const isOther = (a: ScopeSetting, b: ScopeSetting) => a.contact !== b.contact || a.scope !== b.scope

/** What was read with one setting, as far as it is good for the next. */
export function takenOver(
  held: HeldSlice | undefined,
  before: ScopeSetting,
  next: ScopeSetting,
): HeldSlice | undefined {
  if (!held || !isSameReader(before, next)) return undefined
  return isOther(before, next) ? untokened(held) : held
}

export function isRateCard(held: HeldSlice | undefined, { scope }: ScopeSetting): boolean {
  return scope.name !== PUBLIC && held?.cacheScope === 'public'
}

export const paceOf = ({ pageSize, refreshMs, walkMs, dropAfterMs }: Pace) => ({
  ...{ pageSize, refreshMs, walkMs, dropAfterMs },
})

/** A mirror of these would be made of the same things: what it knows of its last readings stays good. */
export function needsAnother(a: ScopeSetting, b: ScopeSetting): boolean {
  const madeOf = ({ entry: { id, seeds }, pace }: ScopeSetting) => [id, seeds, paceOf(pace)]
  return isOther(a, b) || !isDeepStrictEqual(madeOf(a), madeOf(b))
}

/** In whose name a slice was read, told by names and digests alone. */
export type Owner = {
  /** Tokens of another credential prove nothing; nor do rows, where there is no account. */
  credential: string
  /** The account at the upstream; absent in the public scope, and where the credential alone says who asks. */
  account?: string
}

export type Key = { agentUrl: string; scope: string }
