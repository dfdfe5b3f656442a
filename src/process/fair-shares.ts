/**
 * What many share, so that nobody takes what is another's: places to work in, by a queue in which owners take turns; bytes in
 * memory, under one bound that only the largest owner meets, of what is held and of what is being read; and requests, of which
 * each name has so many a second.
 */
import { createRecent } from './memory.js'

const NOBODY: readonly string[] = [''] // what has no owner is one owner's

type Visit = {
  /** All owners who asked for it. It runs at the turn of the first of them and counts for that one. */
  owners: readonly string[]
  group: string
}

type FairQueueOptions = {
  /** Tasks under way at once: in all, for one owner, and in one group of one owner. */
  total: number
  perOwner: number
  perGroup: number
}

type Waiting = { start(done: () => void): void; isStarted: boolean }
type Group = { underWay: number; waiting: Waiting[] }
/** The groups in the order of their turns. */
type Owner = { underWay: number; groups: Map<string, Group> }

/**
 * Runs work for many owners in a limited number of places. The owner with the least work under way is next, and within
 * it the group that waited longest. An owner is who asked for the work, a group is where it goes.
 */
export function createFairQueue({ total, perOwner, perGroup }: FairQueueOptions) {
  /** The owners in the order of their turns. */
  const owners = new Map<string, Owner>()
  let underWay = 0
  let waiting = 0

  function groupOf(owner: string, name: string): Group {
    const { groups } = owners.get(owner) ?? { groups: new Map<string, Group>() }
    if (!owners.has(owner)) owners.set(owner, { underWay: 0, groups })
    const group = groups.get(name) ?? { underWay: 0, waiting: [] }
    groups.set(name, group)
    return group
  }

  /** The owner's next group that has work and a free place; drops finished groups on the way. */
  function nextGroup({ groups }: Owner): string | undefined {
    for (const [name, group] of groups) {
      while (group.waiting[0]?.isStarted) group.waiting.shift() // another of its owners had it started
      if (group.waiting.length === 0) {
        if (group.underWay === 0) groups.delete(name)
      } else if (group.underWay < perGroup) return name
    }
    return undefined
  }

  function next(): { ownerName: string; owner: Owner; groupName: string; group: Group } | undefined {
    let found: ReturnType<typeof next>
    for (const [ownerName, owner] of owners) {
      if (owner.underWay >= Math.min(perOwner, found?.owner.underWay ?? perOwner)) continue
      const groupName = nextGroup(owner)
      const group = groupName === undefined ? undefined : owner.groups.get(groupName)
      if (groupName !== undefined && group) found = { ownerName, owner, groupName, group }
      else if (owner.groups.size === 0) owners.delete(ownerName)
    }
    return found
  }

  /** Whoever has had a turn goes to the end of the line. */
  function rotate<T>(map: Map<string, T>, name: string, value: T): void {
    map.delete(name)
    map.set(name, value)
  }

  function startWaiting(): void {
    while (underWay < total && waiting > 0) {
      const turn = next()
      if (!turn) return
      const { ownerName, owner, groupName, group } = turn
      const entry = group.waiting.shift() as Waiting
      rotate(owners, ownerName, owner)
      rotate(owner.groups, groupName, group)
      entry.isStarted = true
      waiting -= 1
      underWay += 1
      owner.underWay += 1
      group.underWay += 1
      entry.start(() => {
        underWay -= 1
        owner.underWay -= 1
        group.underWay -= 1
        startWaiting()
      })
    }
  }

  return {
    /** Runs the task when its turn comes, and returns its result. */
    run<T>(turn: Visit, task: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        const entry: Waiting = {
          isStarted: false,
          start(done) {
            task().finally(done).then(resolve, reject)
          },
        }
        waiting += 1
        for (const owner of turn.owners.length > 0 ? turn.owners : NOBODY)
          groupOf(owner, turn.group).waiting.push(entry)
        startWaiting()
      })
    },
    /** How many tasks of an owner wait for their turn. */
    waiting(owner: string): number {
      const groups = owners.get(owner)?.groups.values() ?? []
      return [...groups].reduce((sum, group) => sum + group.waiting.length, 0)
    },
  }
}

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
function largestOf<T>(all: Iterable<T>, bytesOf: (one: T) => number): T | undefined {
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

/** How fast a bucket fills, and how much it holds. */
export type Rate = { perSecond: number; burst: number }

/** A name that is not held has a full bucket, and one that is dropped starts with a full one again. All times are ms. */
type Bucket = { tokens: number; at: number }

/** Whole seconds until there is a token; 0 when there is one. */
function secondsUntil({ tokens }: Bucket, { perSecond }: Rate): number {
  return tokens >= 1 ? 0 : Math.ceil((1 - tokens) / perSecond)
}

/** Token buckets by name, `most` in all: how often each may ask. */
export function createBuckets(most: number) {
  const buckets = createRecent<Bucket>(most)

  /** As it is now; a full one is not kept. */
  function filled(name: string, { perSecond, burst }: Rate, now: number): Bucket {
    const bucket = buckets.get(name)
    if (!bucket) return { tokens: burst, at: now }
    bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) * perSecond) / 1_000)
    bucket.at = now
    return bucket
  }

  return {
    /** Whole seconds until there is a token; 0 when there is one. */
    wait: (name: string, rate: Rate, now: number): number => secondsUntil(filled(name, rate, now), rate),
    /** Puts so many in, or takes them out, as far as it goes; gives how many there are then. */
    add(name: string, tokens: number, rate: Rate, now: number): number {
      const bucket = filled(name, rate, now)
      bucket.tokens = Math.min(rate.burst, Math.max(0, bucket.tokens + tokens))
      if (!buckets.has(name)) buckets.set(name, bucket)
      return bucket.tokens
    },
    /** Takes one and gives 0; where there is none, the whole seconds until there is. */
    take(name: string, rate: Rate, now: number): number {
      const bucket = filled(name, rate, now)
      const seconds = secondsUntil(bucket, rate)
      if (seconds > 0) return seconds
      bucket.tokens -= 1
      if (!buckets.has(name)) buckets.set(name, bucket)
      return 0
    },
  }
}
