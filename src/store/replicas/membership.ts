/**
 * Which process on a shared storage does which work. Each shows that it is alive, sees which others are, and decides for itself,
 * from the same list of members, without a coordinator; while two lists differ, leases decide. A write under a lease happens only
 * while its epoch is the current one: a process that was paused or cut off changes nothing when it continues. What a member could
 * not do it leaves to the others. PostgreSQL only: a process alone on its storage has every right.
 */
import { sql } from 'kysely'
import type { Clock } from '../../net/clock.js'
import { mixed, textHash } from '../../process/remembered.js'
import type { Sharing } from '../../upstreams/rows/storage.js'
import { type Db, POSTGRES, type SqlDialect } from '../database/database.js'

/** Another process has a dead one's work after these two together at the latest, ms. */
const LEASE_MS = 10_000
const BEAT_EVERY_MS = 3_000
const FORGET_EVERY_MS = 60 * 60 * 1_000
const FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1_000
/**
 * After this the member that left work may have it again: long enough that a lasting trouble costs little, short enough that work is
 * spread evenly again.
 */
const PASSED_MS = 10 * 60_000
const MEMBERS = 'member/' // names of leases
const PASSED = 'passed/' // names of notes

/** A lease that was taken; only the database knows whether it still holds. */
export type Lease = { name: string; epoch: number }

export type Leases = {
  /** Takes those that are free and renews those of the owner, for so long; returns those that it has now. */
  take(owner: string, names: readonly string[], ms: number): Promise<Lease[]>
  /** Releases them. Work that still goes on under them writes nothing more. */
  release(leases: readonly Lease[]): Promise<void>
  /** Names beginning with `prefix` that some process holds. */
  held(prefix: string): Promise<string[]>
  /** Forgets those that ended long ago. */
  forgetOld(): Promise<void>
}

/**
 * Rights of one process among several to do a piece of work. A lease has a name, an owner and an end on the database's clock, and an
 * epoch that is raised whenever it gets another owner, or the same one after it ended. Rejects while the database cannot serve.
 */
export function createLeases(db: Db, { now, given }: SqlDialect = POSTGRES): Leases {
  /**
   * By itself, or begun when the database's clock was ahead: none that somebody renews ends so late. A clock that is set back by less
   * than a lease lasts ends none before its time.
   */
  const isOver = (ms: number) =>
    sql<boolean>`(leases.until <= ${now()} or leases.until > ${now()} + ${2 * ms})`

  /** Epochs grow with time, so that a forgotten name continues above its last one. */
  const nextEpoch = () => sql`case when leases.epoch < ${now()} then ${now()} else leases.epoch + 1 end`

  async function take(owner: string, names: readonly string[], ms: number): Promise<Lease[]> {
    if (names.length === 0) return []
    // In one order: two that take the same names wait for each other and never both.
    const wanted = [...new Set(names)].sort().map((name) => ({ name }))
    const { rows } = await sql<Lease>`insert into leases (name, owner, epoch, until)
      select value->>'name', ${owner}, ${now()}, ${now()} + ${ms} from ${given(wanted)} where true
      on conflict (name) do update set owner = excluded.owner, until = excluded.until,
        epoch = case when leases.owner = excluded.owner and leases.until > ${now()} then leases.epoch
          else ${nextEpoch()} end
      where leases.owner = excluded.owner or ${isOver(ms)}
      returning name, epoch`.execute(db)
    return rows
  }

  async function release(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return
    const ended = [...leases].sort((a, b) => (a.name < b.name ? -1 : 1))
    // Put like those that are taken, because an update would lock them in the order in which they lie in the table.
    await sql`insert into leases (name, owner, epoch, until)
      select value->>'name', '', cast(value->>'epoch' as bigint) + 1, 0 from ${given(ended)} where true
      on conflict (name) do update set until = 0, epoch = ${nextEpoch()}
      where leases.epoch = excluded.epoch - 1`.execute(db)
  }

  async function held(prefix: string): Promise<string[]> {
    const rows = await db
      .selectFrom('leases')
      .select('name')
      .where('name', 'like', `${prefix}%`)
      .where(sql<boolean>`not ${isOver(LEASE_MS)}`)
      .execute()
    return rows.map(({ name }) => name)
  }

  async function forgetOld(): Promise<void> {
    await db.deleteFrom('leases').where('until', '<', sql<number>`${now()} - ${FORGOTTEN_AFTER_MS}`).execute()
  }

  return { take, release, held, forgetOld }
}

/**
 * Whether a lease still holds, to be asked first in a transaction that writes under it: until the transaction ends, no other
 * process can take the name.
 */
export async function leaseStands(tx: Db, { name, epoch }: Lease): Promise<boolean> {
  const rows = await tx
    .selectFrom('leases')
    .select('epoch')
    .where('name', '=', name)
    .where('epoch', '=', epoch)
    .forShare()
    .execute()
  return rows.length > 0
}

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

type PassedOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear'>
  clock: Clock
  self: string
  members(): readonly string[]
  /** Called when work has been left to others; resolves when this member has released what is no longer its own. */
  onPassed(): Promise<void>
}

/**
 * Work that a member could not do and left to the others: a process that cannot reach an agent may still reach the database, and
 * would keep the lease. The others get a note, so that all decide alike who is next. Hears at once what others leave.
 */
export function createPassed({ sharing, clock, self, members, onPassed }: PassedOptions) {
  const passed = new Map<string, Map<string, number>>() // by work, when each member may have it again, in the order of leaving

  function note(work: string, member: string, until: number): void {
    const its = passed.get(work) ?? new Map<string, number>()
    its.delete(member)
    passed.set(work, its.set(member, until))
    for (const [name, known] of passed) {
      for (const [one, end] of known) if (end <= clock.now()) known.delete(one)
      if (known.size === 0) passed.delete(name)
    }
  }

  sharing.hear(PASSED, (name, _value, ageMs) => {
    const [member = '', ...work] = name.slice(PASSED.length).split('/')
    note(work.join('/'), member, clock.now() + PASSED_MS - ageMs)
    void onPassed()
  })

  return {
    /** Live members who have left the work to others; never all of them: when all did, not the one that left it longest ago. */
    by(work: string): readonly string[] {
      const live = new Set(members())
      const left = [...(passed.get(work) ?? [])].flatMap(([member, until]) =>
        until > clock.now() && live.has(member) ? [member] : [],
      )
      return left.length < live.size ? left : left.slice(1)
    },
    /** Leaves it to another member and releases it first. */
    async pass(work: string): Promise<void> {
      if (members().length < 2) return
      note(work, self, clock.now() + PASSED_MS)
      await onPassed()
      await sharing.tell(`${PASSED}${self}/${work}`, true)
    },
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
  /** These alone. */
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
    const until = clock.now() + LEASE_MS // measured from before the request, so it ends before the database's own count does
    const taken = await leases.take(self, names, LEASE_MS)
    for (const lease of taken) held.set(lease.name, { ...lease, until })
    return taken
  }

  /** Shows that it is alive, lists the members, releases the work of others, and takes its own. */
  async function beat(): Promise<void> {
    const before = new Map([...held].map(([name, { epoch }]) => [name, epoch]))
    await take([`${MEMBERS}${self}`])
    const live = await leases.held(MEMBERS)
    const isNews = follow(live.map((name) => name.slice(MEMBERS.length)))
    const mine = new Set(
      [...wanted.values()].flatMap(({ names, doers: { only, also } }) => {
        const owners = [
          only ? createRendezvous(only()) : ownerOf,
          ...(also ? [createRendezvous(also())] : []),
        ]
        return [...names].filter((name) => {
          const passed = passedBy?.(name)
          return owners.some((owner) => owner(name, passed) === self)
        })
      }),
    )
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
