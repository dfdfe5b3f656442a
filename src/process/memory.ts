/**
 * The memory of a process, within bounds: the entries that were used last, by name; how often each name has asked lately; bytes held
 * for many owners under one bound; and memory lent for bytes that leave at once.
 */
import { LRUCache } from 'lru-cache'

const LENT_STEP = 32 * 1024 // sizes of lent memory are multiples of it
const MOST_LENT = 512 * 1024 // larger memory is rare, and is not lent
const MOST_IDLE = 8 * 1024 * 1024 // to be lent again

export type Recent<V extends NonNullable<unknown>> = LRUCache<string, V>

/**
 * Empty, for `most` entries: one more drops the one whose last use is longest ago. It takes the memory of those it holds,
 * where `LRUCache({ max })` takes that of all when it is made: most of what is bounded by thousands stays nearly empty.
 */
export function createRecent<V extends NonNullable<unknown>>(most: number): Recent<V> {
  return new LRUCache<string, V>({ maxSize: most, sizeCalculation: () => 1 })
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

/** Something that is held. */
type Holding = {
  bytes: number
  group: string
  /** Those who use it at present. It counts for one of them: the one that holds least. */
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

  function largest(keys: Iterable<string>): [string, Held] | undefined {
    let most: [string, Held] | undefined
    for (const key of keys) {
      const holding = held.get(key)
      if (holding && (!most || holding.bytes > most[1].bytes)) most = [key, holding]
    }
    return most
  }

  /** Drops things of the largest owner until the bound holds; returns their keys. */
  function settle(): string[] {
    const gone: string[] = []
    while (total > limit()) {
      const owner = greediest(accounts)
      const group = owner && greediest(owner[1].groups)
      const found = group && largest(group[1].keys)
      if (!owner || !found) break
      const [key, holding] = found
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

/** Lent before and to be lent again, by size. */
const idle = new Map<number, Buffer[]>()
let idleBytes = 0
const lent = new WeakMap<ArrayBufferLike, Buffer>()

/**
 * Memory of at least so many bytes, with whatever stood in it; for one answer, until it is given back. An answer that nobody keeps
 * is written into it, and an agent's answer lies in it until its rows are copied to where they stay. New memory for each such
 * answer costs more than filling it: the system hands it out page by page, and memory outside of the heap makes the collector go
 * through the whole heap (docs/performance.md). Whoever keeps such an answer copies it, and nothing is remembered by an address in
 * this memory. What is never given back is garbage like any other.
 */
export function lend(bytes: number): Buffer {
  if (bytes > MOST_LENT) return Buffer.allocUnsafeSlow(bytes)
  const size = Math.ceil(bytes / LENT_STEP) * LENT_STEP
  const found = idle.get(size)?.pop()
  if (found) idleBytes -= size
  const memory = found ?? Buffer.allocUnsafeSlow(size)
  lent.set(memory.buffer, memory)
  return memory
}

/** Whether these bytes are in lent memory, so that others will soon stand there. */
export function isLent({ buffer }: Uint8Array): boolean {
  return lent.has(buffer)
}

/** This memory is nobody's now, to be lent again. */
function keepIdle(memory: Buffer): void {
  if (idleBytes + memory.byteLength > MOST_IDLE) {
    idle.clear() // of sizes that are no longer asked for, perhaps
    idleBytes = 0
  }
  const ofSize = idle.get(memory.byteLength) ?? []
  idle.set(memory.byteLength, ofSize)
  ofSize.push(memory)
  idleBytes += memory.byteLength
}

/** These bytes have left: nobody reads them any more. Bytes that are not in lent memory are ignored. */
export function giveBack({ buffer }: Uint8Array): void {
  const memory = lent.get(buffer)
  if (!memory) return
  lent.delete(buffer)
  keepIdle(memory)
}

/**
 * Gives back what was lent and went to another thread, for it came back as other memory than was lent. Only for who knows that
 * nobody else reads anything in the memory that these bytes lie in. Memory of other sizes is ignored.
 */
export function giveBackMoved({ buffer }: Uint8Array): void {
  const { byteLength } = buffer
  const isOfOurs = buffer instanceof ArrayBuffer && byteLength % LENT_STEP === 0
  if (isOfOurs && byteLength > 0 && byteLength <= MOST_LENT) keepIdle(Buffer.from(buffer))
}
