/**
 * Which process on a shared storage does which work. Each shows that it is alive, sees which others are, and decides for itself,
 * from the same list of members, without a coordinator; while two lists differ, leases decide. What a member could not do it leaves
 * to the others (passed.ts). PostgreSQL only: a process alone on its storage has every right.
 */
import type { Clock } from '../../net/clock.js'
import { mixed, textHash } from '../../process/remembered.js'
import { LEASE_LASTS_MS, type Lease, type Leases } from './leases.js'

const BEAT_EVERY_MS = 3_000
const FORGET_EVERY_MS = 60 * 60 * 1_000
const MEMBERS = 'member/' // names of leases

/** The winner of a name among all but `except`. */
type Rendezvous = (name: string, except?: readonly string[]) => string | undefined

/**
 * Who of several members does a piece of work, agreed on without asking (rendezvous hashing): each member has a score for each
 * name, and the highest wins. Names spread evenly, and when a member comes or goes only the names that it wins, or had won,
 * move. Gives the winner of a name among `members`, in whatever order they are named; undefined when there are none.
 */
export function createRendezvous(members: readonly string[]): Rendezvous {
  const hashed = [...members].sort().map((member) => ({ member, hash: mixed(textHash(member)) }))
  return (name, except = []) => {
    const hash = textHash(name)
    let winner: string | undefined
    let highest = -1
    for (const one of hashed) {
      if (except.includes(one.member)) continue
      const score = mixed(hash ^ one.hash)
      if (score <= highest) continue
      highest = score
      winner = one.member
    }
    return winner
  }
}

type MembershipOptions = {
  leases: Leases
  clock: Clock
  /** Names this process among the others: no two may have the same. */
  self: string
  /** Members that have left a piece of work to the others; never all of them. */
  passedBy?(name: string): readonly string[]
  /** Receives what an operator should know. */
  onProblem(problem: string): void
}

/** Who may do a kind of work; absent: all members. Called whenever that is decided. */
type Doers = {
  /** These alone, and whoever of them has it keeps it: what it costs to begin anew is more than an even share is worth. */
  only?(): readonly string[]
  /** All members, and one of these what no other member has taken: another may not know of all that there is to do. */
  also?(): readonly string[]
}

type Wanted = { names: ReadonlySet<string>; doers: Doers }

/**
 * One process among those that share a storage: it shows that it is alive and holds the leases of its share of the work. Its clock is
 * only asked how much time has passed. Nothing is held before the first `round` or `start`.
 */
export function createMembership(options: MembershipOptions) {
  const { leases, clock, self, passedBy, onProblem } = options
  const wanted = new Map<string, Wanted>()
  const held = new Map<string, Lease & { until: number }>()
  const listeners = new Set<() => void>()
  let members: readonly string[] = [self]
  let ownerOf = createRendezvous(members)
  let forgottenAt = 0
  let beating: Promise<void> | undefined
  let again = false
  let started = false
  let closed = false
  let cancelBeat = () => {}
  let cancelEnd = () => {}

  function tell(): void {
    for (const listener of listeners) listener()
  }

  const isOver = ({ until }: { until: number }) => clock.now() >= until

  /** A lease that could not be renewed counts as lost, whether the database can be asked or not. */
  function dropOver(): void {
    const over = [...held.values()].filter(isOver)
    for (const { name } of over) held.delete(name)
    if (over.length > 0) tell()
    watchEnds()
  }

  function watchEnds(): void {
    cancelEnd()
    const first = Math.min(...[...held.values()].map(({ until }) => until))
    if (Number.isFinite(first) && !closed) cancelEnd = clock.after(first - clock.now(), dropOver)
  }

  function follow(live: readonly string[]): boolean {
    const next = [...new Set([self, ...live])].sort()
    if (next.join('\n') === members.join('\n')) return false
    members = next
    ownerOf = createRendezvous(members)
    return true
  }

  async function take(names: readonly string[]): Promise<Lease[]> {
    const until = clock.now() + LEASE_LASTS_MS // measured from before the request, so it ends before the database's own count does
    const taken = await leases.take(self, names, LEASE_LASTS_MS)
    for (const lease of taken) held.set(lease.name, { ...lease, until })
    return taken
  }

  /** What this member is to do of a kind of work, as far as no other still does it. */
  function shareOf({ names, doers: { only, also } }: Wanted): string[] {
    const few = only?.()
    const owners = [few ? createRendezvous(few) : ownerOf, ...(also ? [createRendezvous(also())] : [])]
    const mayKeep = few?.includes(self)
    return [...names].filter((name) => {
      const passed = passedBy?.(name)
      if (mayKeep && held.has(name) && !passed?.includes(self)) return true
      return owners.some((owner) => owner(name, passed) === self)
    })
  }

  /** Shows that it is alive, lists the members, releases the work of others, and takes its own. */
  async function beat(): Promise<void> {
    const before = new Map([...held].map(([name, { epoch }]) => [name, epoch]))
    await take([`${MEMBERS}${self}`])
    const live = await leases.held(MEMBERS)
    const isNews = follow(live.map((name) => name.slice(MEMBERS.length)))
    const mine = new Set([...wanted.values()].flatMap(shareOf))
    const others = [...held.values()].filter(({ name }) => !mine.has(name) && !name.startsWith(MEMBERS))
    for (const { name } of others) held.delete(name)
    await leases.release(others)
    const taken = new Set((await take([...mine])).map(({ name }) => name))
    for (const name of mine) if (!taken.has(name)) held.delete(name)
    if (forgottenAt + FORGET_EVERY_MS <= clock.now()) {
      forgottenAt = clock.now()
      await leases.forgetOld()
    }
    const isOther =
      held.size !== before.size || [...held].some(([name, { epoch }]) => before.get(name) !== epoch)
    watchEnds()
    if (isNews || isOther) tell()
  }

  /** Does one round now, or one more after the round that has begun; resolves when that is done. */
  async function round(): Promise<void> {
    if (beating) {
      again = true
      return beating
    }
    beating = (async () => {
      do {
        again = false
        await beat().catch((error: Error) => onProblem(`leases could not be renewed: ${error.message}`))
      } while (again && !closed)
    })()
    await beating
    beating = undefined
    if (started && !closed) {
      cancelBeat()
      cancelBeat = clock.after(BEAT_EVERY_MS, () => void round())
    }
  }

  return {
    want(kind: string, names: Iterable<string>, doers: Doers = {}): void {
      const next = new Set(names)
      const before = wanted.get(kind)?.names
      wanted.set(kind, { names: next, doers })
      const isSame = before?.size === next.size && [...next].every((name) => before.has(name))
      if (!isSame && started && !closed) void round()
    },
    lease(name: string): Lease | undefined {
      const found = held.get(name)
      return found && !isOver(found) ? { name, epoch: found.epoch } : undefined
    },
    members: () => members,
    onChange(listener: () => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    round,
    /** Something changed that decides who does what. */
    look(): void {
      if (started && !closed) void round()
    },
    /** Takes part from now on; resolves when it knows the other members. */
    async start(): Promise<void> {
      started = true
      await round()
    },
    /** Releases everything, so that the others need not wait. */
    async close(): Promise<void> {
      closed = true
      cancelBeat()
      cancelEnd()
      await beating
      const all = [...held.values()]
      held.clear()
      await leases.release(all).catch(() => {}) // they end by themselves
    },
  }
}
