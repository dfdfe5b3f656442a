/**
 * How much all documents together take, shared fairly among the upstreams that name their providers and, for each upstream, among
 * registrable domains. A document counts once, however many providers point to it.
 */
import { createFairBudget } from '../../net/fair-budget.js'
import type { HeldDocument, ProviderState } from '../rules/state.js'
import { tableBytes } from '../rules/tables.js'
import { registrableDomain } from './domain.js'

type RoomOptions = {
  /** Bytes for all documents and what is made from them, as of now. */
  bytes: () => number
  /** The upstreams that name a provider. */
  ownersOf(domain: string): readonly string[]
  /** There is no room for this document: its users have to let go of it. */
  onEvicted(digest: string, users: readonly string[]): void
}

/** What a document takes, with what is made from it, in bytes. */
export function recordBytes({ bytes, tables }: HeldDocument): number {
  return bytes.byteLength + tableBytes(tables)
}

export function createRoom({ bytes, ownersOf, onEvicted }: RoomOptions) {
  const budget = createFairBudget(bytes)
  const usersOf = new Map<string, Set<string>>()

  function ownersOfDocument(digest: string): string[] {
    const found = new Set<string>()
    for (const domain of usersOf.get(digest) ?? []) for (const owner of ownersOf(domain)) found.add(owner)
    return [...found]
  }

  function take(domain: string, document: HeldDocument): void {
    const { digest, url } = document
    const users = usersOf.get(digest) ?? new Set()
    usersOf.set(digest, users.add(domain))
    if (budget.has(digest)) return
    const gone = budget.hold(digest, {
      bytes: recordBytes(document),
      group: registrableDomain(new URL(url).hostname),
      owners: () => ownersOfDocument(digest),
    })
    for (const lost of gone) {
      const losers = [...(usersOf.get(lost) ?? [])]
      usersOf.delete(lost)
      onEvicted(lost, losers)
    }
  }

  function release(domain: string, { digest }: HeldDocument): void {
    const users = usersOf.get(digest)
    if (!users?.delete(domain) || users.size > 0) return
    usersOf.delete(digest)
    budget.release(digest)
  }

  return {
    /** A provider's document was replaced, came or went. The one that came may be evicted before this returns. */
    changed({ domain, document: before }: ProviderState, after: HeldDocument | undefined): void {
      if (before?.digest === after?.digest) return
      if (before) release(domain, before)
      if (after) take(domain, after)
    },
    /** Upstreams name other providers now. */
    reassign: budget.reassign,
    bytes: budget.bytes,
  }
}
