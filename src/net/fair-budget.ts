/**
 * Bytes held for many owners under one bound: when it is passed, the largest thing of the greediest goes. The greediest is the
 * owner that holds most, and within it the group that holds most. So whoever holds no more than an equal share of the bound
 * loses nothing, whatever the others do.
 */
type Holding = {
  bytes: number
  group: string
  /** Who has a use for it, as of now. One of them, the one that holds least, pays for it. */
  owners(): readonly string[]
}

type Held = Holding & { payer: string }
type Account = { bytes: number; groups: Map<string, { bytes: number; keys: Set<string> }> }

const NOBODY: readonly string[] = ['']

function greediest<T extends { bytes: number }>(all: Iterable<[string, T]>): [string, T] | undefined {
  let most: [string, T] | undefined
  for (const each of all) if (!most || each[1].bytes > most[1].bytes) most = each
  return most
}

/** `limit` gives the bound in bytes that holds when it is asked. */
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

  function largest(keys: Iterable<string>): [string, Held] | undefined {
    let most: [string, Held] | undefined
    for (const key of keys) {
      const holding = held.get(key)
      if (holding && (!most || holding.bytes > most[1].bytes)) most = [key, holding]
    }
    return most
  }

  /** Takes from the greediest until the bound holds; gives what has to go. */
  function settle(): string[] {
    const gone: string[] = []
    while (total > limit()) {
      const owner = greediest(accounts)
      const group = owner && greediest(owner[1].groups)
      const found = group && largest(group[1].keys)
      if (!owner || !found) break
      const [key, holding] = found
      const other = leastOf(holding.owners())
      // Somebody else who wants it has room for it: it is not the greedy one's to lose.
      if (other !== owner[0] && paid(other) + holding.bytes < paid(owner[0])) move(key, holding, other)
      else {
        release(key)
        gone.push(key)
      }
    }
    return gone
  }

  return {
    /** Takes note of something that is held, under a key of its own; gives the keys of what must be let go of. */
    hold(key: string, holding: Holding): string[] {
      release(key)
      const taken = { ...holding, payer: leastOf(holding.owners()) }
      held.set(key, taken)
      charge(key, taken)
      total += holding.bytes
      return settle()
    },
    /** It is not held any more. Unknown keys are ignored. */
    release,
    /** Owners have changed: whoever pays for what it has no use for stops paying. */
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

/**
 * Of each list its first items: the short ones whole, the long ones equally cut, `most` in all. Where there are more lists than
 * room, the first ones have one item each.
 */
export function fairShares<T>(lists: readonly (readonly T[])[], most: number): T[][] {
  let room = most
  let share = Number.POSITIVE_INFINITY
  const lengths = lists.map(({ length }) => length).sort((a, b) => a - b)
  for (const [at, length] of lengths.entries()) {
    share = Math.floor(room / (lengths.length - at))
    if (length > share) break
    room -= length
    share = Number.POSITIVE_INFINITY
  }
  let left = most
  return lists.map((list) => {
    const part = list.slice(0, Math.min(Math.max(share, 1), left))
    left -= part.length
    return part
  })
}
