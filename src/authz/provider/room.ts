/**
 * Bounds the memory of all documents together. It is shared fairly among the upstreams that name their providers, and
 * for each upstream among registrable domains. A document counts once, however many providers point to it.
 */
import { createFairBudget } from '../../memory/fair-budget.js'
import type { HeldDocument, ProviderState } from '../rules/state.js'
import { tableBytes } from '../rules/tables.js'
import { registrableDomain } from './domain.js'

type RoomOptions = {
  /** The current bound, in bytes, on all documents and the tables made from them. */
  bytes: () => number
  /** The upstreams that name a provider. */
  ownersOf(domain: string): readonly string[]
  /** Called when there is no room for this document: its users have to drop it. */
  onEvicted(digest: string, users: readonly string[]): void
}

/** The bytes of a document and its tables. */
export function recordBytes({ bytes, tables }: HeldDocument): number {
  return bytes.byteLength + tableBytes(tables)
}

/** Calls `onEvicted` whenever the bound is passed. */
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
    /**
     * Registers that a provider's document was replaced, came or went. A new one may be evicted before this returns.
     */
    changed({ domain, document: before }: ProviderState, after: HeldDocument | undefined): void {
      if (before?.digest === after?.digest) return
      if (before) release(domain, before)
      if (after) take(domain, after)
    },
    /** Upstreams now name other providers. */
    reassign: budget.reassign,
    bytes: budget.bytes,
  }
}
