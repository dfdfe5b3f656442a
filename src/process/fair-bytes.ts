/**
 * Bytes in memory that many owners share under one bound, so that nobody takes what is another's: only the largest owner meets the
 * bound. There is one for what is held, and one for what is being read and still grows.
 */

const NOBODY: readonly string[] = [''] // what has no owner is one owner's

/** Something that is held. */
type Holding = {
  bytes: number
  group: string
  /** Those who use it at present. It counts for one of them: the one that holds least. */
  owners(): readonly string[]
}

type Held = Holding & { payer: string }
type Account = { bytes: number; groups: Map<string, { bytes: number; keys: Set<string> }> }

/** The first of those with the most bytes; undefined when there is none. */
export function largestOf<T>(all: Iterable<T>, bytesOf: (one: T) => number): T | undefined {
  let largest: T | undefined
  let most = -1
  for (const one of all) {
    const bytes = bytesOf(one)
    if (bytes <= most) continue
    largest = one
    most = bytes
  }
  return largest
}

const bytesIn = ([, { bytes }]: readonly [string, { bytes: number }]) => bytes

/**
 * Bytes held for many owners under one bound; `limit` gives it at present. When it is passed, the largest thing of the largest owner
 * is dropped: of the owner that holds most, and within it of the group that holds most. So an owner that holds no more than an
 * equal share loses nothing, whatever the others do.
 */
export function createFairBudget(limit: () => number) {
  const held = new Map<string, Held>()
  const accounts = new Map<string, Account>()
  let total = 0

  const paid = (owner: string) => accounts.get(owner)?.bytes ?? 0

  function leastOf(owners: readonly string[]): string {
    const some = owners.length > 0 ? owners : NOBODY
    return some.reduce((least, owner) => (paid(owner) < paid(least) ? owner : least))
  }

  function charge(key: string, { bytes, group, payer }: Held): void {
    const account: Account = accounts.get(payer) ?? { bytes: 0, groups: new Map() }
    accounts.set(payer, account)
    const part = account.groups.get(group) ?? { bytes: 0, keys: new Set() }
    account.groups.set(group, part)
    account.bytes += bytes
    part.bytes += bytes
    part.keys.add(key)
  }

  function refund(key: string, { bytes, group, payer }: Held): void {
    const account = accounts.get(payer)
    const part = account?.groups.get(group)
    if (!account || !part) return
    account.bytes -= bytes
    part.bytes -= bytes
    part.keys.delete(key)
    if (part.keys.size === 0) account.groups.delete(group)
    if (account.groups.size === 0) accounts.delete(payer)
  }

  function move(key: string, holding: Held, payer: string): void {
    refund(key, holding)
    holding.payer = payer
    charge(key, holding)
  }

  function release(key: string): void {
    const holding = held.get(key)
    if (!holding) return
    refund(key, holding)
    held.delete(key)
    total -= holding.bytes
  }

  /** Drops things of the largest owner until the bound holds; returns their keys. */
  function settle(): string[] {
    const gone: string[] = []
    while (total > limit()) {
      const owner = largestOf(accounts, bytesIn)
      const group = owner && largestOf(owner[1].groups, bytesIn)
      const key = group && largestOf(group[1].keys, (one) => (held.get(one) as Held).bytes)
      if (!owner || key === undefined) break
      const holding = held.get(key) as Held
      const other = leastOf(holding.owners())
      // Another owner who uses it has room for it, so it is kept and counted there.
      if (other !== owner[0] && paid(other) + holding.bytes < paid(owner[0])) move(key, holding, other)
      else {
        release(key)
        gone.push(key)
      }
    }
    return gone
  }

  return {
    /** Registers something that is held, under its own key; returns the keys of what must be dropped. */
    hold(key: string, holding: Holding): string[] {
      release(key)
      const taken = { ...holding, payer: leastOf(holding.owners()) }
      held.set(key, taken)
      charge(key, taken)
      total += holding.bytes
      return settle()
    },
    /** It is no longer held. Unknown keys are ignored. */
    release,
    /** The owners of things have changed: an owner no longer pays for what it no longer uses. */
    reassign(): void {
      for (const [key, holding] of held) {
        const owners = holding.owners()
        if (!owners.includes(holding.payer)) move(key, holding, leastOf(owners))
      }
    },
    has: (key: string) => held.has(key),
    bytes: () => total,
  }
}

/** One thing that is being read. */
export type Growth = {
  grew(bytes: number): void
  /** It is complete, or was given up. */
  end(): void
}

type Entry = { owner: string; bytes: number; giveUp(): void }

/**
 * Bytes of all that is being read, under one bound; `limit` gives it at present. When it is passed, the largest thing of the owner
 * that has most on the way is given up.
 */
export function createFairGrowth(limit: () => number) {
  const owners = new Map<string, { bytes: number; entries: Set<Entry> }>()
  let total = 0
  let givenUp = 0

  function forget(entry: Entry): void {
    const owner = owners.get(entry.owner)
    if (!owner?.entries.delete(entry)) return
    total -= entry.bytes
    owner.bytes -= entry.bytes
    if (owner.entries.size === 0) owners.delete(entry.owner)
  }

  function makeRoom(): void {
    const owner = largestOf(owners.values(), ({ bytes }) => bytes)
    const entry = owner && largestOf(owner.entries, ({ bytes }) => bytes)
    if (!entry) return
    givenUp += 1
    forget(entry)
    entry.giveUp()
  }

  return {
    /** Registers something of an owner; `giveUp` is called when it must end, because all together are too large. */
    begin(name: string, giveUp: () => void): Growth {
      const entry: Entry = { owner: name, bytes: 0, giveUp }
      const owner = owners.get(name) ?? { bytes: 0, entries: new Set() }
      owners.set(name, owner)
      owner.entries.add(entry)
      return {
        grew(bytes) {
          if (!owner.entries.has(entry)) return
          owner.bytes += bytes
          entry.bytes += bytes
          total += bytes
          while (total > limit()) makeRoom()
        },
        end: () => forget(entry),
      }
    },
    bytes: () => total,
    /** How many things were given up. */
    givenUp: () => givenUp,
  }
}
