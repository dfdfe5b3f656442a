/** Leases between processes: one owner at a time, and nothing is written under an epoch that is over. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import type { Clock } from '../../src/net/clock.js'
import { type Db, POSTGRES } from '../../src/store/database/database.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { createLeases, type Lease, type Leases, leaseStands } from '../../src/store/replicas/leases.js'
import { createMembership, createRendezvous } from '../../src/store/replicas/membership.js'
import type { Store } from '../../src/store/store.js'
import { proven } from '../support/proven.js'
import { NO_POSTGRES, shared } from './support/storages.js'

const HOUR = 3_600_000
const START = Date.UTC(2026, 0, 15)

/** Time that only the test moves: the database's, and that of processes whose clocks are wrong. */
function createTime() {
  let now = START
  const timers = new Set<{ at: number; task: () => void; isPaused: () => boolean }>()
  return {
    dialect: { ...POSTGRES, now: () => sql<number>`${now}::bigint` },
    clock: (ahead: number, isPaused = () => false): Clock => ({
      now: () => now + ahead,
      after(ms, task) {
        const timer = { at: now + ms, task, isPaused }
        timers.add(timer)
        return () => timers.delete(timer)
      },
    }),
    advance(ms: number): void {
      now += ms
      for (const timer of [...timers]) {
        if (timer.at > now || timer.isPaused() || !timers.delete(timer)) continue
        timer.task()
      }
    },
  }
}

async function opened(t: Test): Promise<Store | undefined> {
  return (await shared(t))?.open()
}

/** Leases that end by the time of the test. */
async function openedInTime(t: Test) {
  const store = await opened(t)
  if (!store) return undefined
  const time = createTime()
  return { store, time, leases: createLeases(store.db, time.dialect) }
}

/** Written under the lease, if it stands; or if another fence says so. */
function fenced({ db }: Store, lease: Lease, work: () => void, fence = leaseStands): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const may = await fence(tx, lease)
    if (may) work()
    return may
  })
}

/** Resolves when so many statements wait for a lock. */
async function untilWaiting(tx: Db, count: number): Promise<void> {
  const waits = sql<{ waiting: number }>`select count(*)::int as waiting from pg_locks where not granted`
  for (let waiting = 0; waiting < count; ) waiting = (await waits.execute(tx)).rows[0]?.waiting ?? 0
}

test('what a dead process held is free although the clock of the database was set back', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await opened(t)
  if (!store) return
  const time = createTime()
  const leases = createLeases(store.db, time.dialect)
  await leases.take('dead', ['member/dead', 'work'], 10_000)
  await leases.take('living', ['member/living', 'more'], 10_000)
  time.advance(-5_000)
  t.same(await leases.take('another', ['work', 'more'], 10_000), [], 'a small step ends no lease')
  time.advance(-HOUR)
  const [renewed] = await leases.take('living', ['more'], 10_000)
  t.ok(renewed, 'who lives goes on')
  t.same(await leases.take('another', ['more'], 10_000), [], 'and keeps it')
  await leases.take('living', ['member/living'], 10_000)
  const [taken] = await leases.take('living', ['work'], 10_000)
  t.ok(taken && (await store.db.transaction().execute((tx) => leaseStands(tx, taken))))
  t.same(await leases.held('member/'), ['member/living'])
})

test('who releases and who takes the same names do not wait for each other in a circle', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await opened(t)
  if (!store) return
  const leases = createLeases(store.db)
  const held: Lease[] = []
  for (const name of ['z', 'm', 'a']) held.push(...(await leases.take('one', [name], HOUR))) // as rows lie in the table
  const between = held.find(({ name }) => name === 'm') as Lease
  let released: Promise<void> = Promise.resolve()
  let taken: Promise<Lease[]> = Promise.resolve([])
  await store.db.transaction().execute(async (tx) => {
    await leaseStands(tx, between)
    released = leases.release(held)
    await untilWaiting(tx, 1)
    taken = leases.take('two', ['a', 'm', 'z'], HOUR)
    await untilWaiting(tx, 2)
  })
  await t.resolves(released)
  t.equal((await taken).length, held.length)
})

test('a lease is one owner´s until it ends, and each owner has an epoch of its own', {
  skip: NO_POSTGRES,
}, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { store, time, leases } = timed
  const [first] = await leases.take('one', ['b', 'a'], 1_000)
  t.same(await leases.take('two', ['a', 'b'], 1_000), [])
  t.same((await leases.held('')).sort(), ['a', 'b'])
  time.advance(600)
  t.same((await leases.take('one', ['a'], 1_000))[0]?.epoch, first?.epoch, 'renewed, it is the same')
  time.advance(600)
  const [second] = await leases.take('two', ['a', 'b'], 1_000)
  t.equal(second?.name, 'b', 'only what was not renewed')
  t.ok(second && first && second.epoch > first.epoch)
  const old = { name: 'b', epoch: first?.epoch ?? 0 }
  t.equal(await fenced(store, old, () => t.fail('an old epoch wrote')), false)
  t.equal(await fenced(store, second as Lease, () => {}), true)
  await leases.release([old])
  t.equal(await fenced(store, second as Lease, () => {}), true, 'an old epoch ends nobody´s')
  await leases.release([second as Lease])
  t.equal(await fenced(store, second as Lease, () => {}), false, 'what was let go of is over')
  time.advance(5_000)
  const [back] = await leases.take('one', ['a'], 1_000)
  t.ok(back && first && back.epoch > first.epoch, 'back at its owner after it ended, it is another one')
  time.advance(25 * HOUR)
  await leases.forgetOld()
  t.same(await store.db.selectFrom('leases').selectAll().execute(), [])
  const [fresh] = await leases.take('two', ['a'], 1_000)
  t.ok(fresh && back && fresh.epoch > back.epoch, 'a forgotten name goes on beyond where it was')
})

test('nobody takes a lease while somebody writes under it', { skip: NO_POSTGRES }, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { store, time, leases } = timed
  const [lease] = await leases.take('one', ['a'], 1_000)
  time.advance(2_000)
  const order: string[] = []
  let taking: Promise<unknown> = Promise.resolve()
  await store.db.transaction().execute(async (tx) => {
    t.equal(await leaseStands(tx, lease as Lease), true)
    taking = leases.take('two', ['a'], 1_000).then(() => order.push('taken'))
    await untilWaiting(tx, 1)
    order.push('written')
  })
  await taking
  t.same(order, ['written', 'taken'])
})

test('a blob is neither replaced nor removed under an old epoch', { skip: NO_POSTGRES }, async (t) => {
  const store = await opened(t)
  if (!store?.replicas) return
  const { leases, write, remove } = store.replicas
  const [old] = (await leases.take('one', ['a'], 60_000)) as [Lease]
  t.equal(await write('blob', [Buffer.from('of one')], old), true)
  await leases.release([old])
  const [next] = (await leases.take('two', ['a'], 60_000)) as [Lease]
  t.equal(await write('blob', [Buffer.from('too late')], old), false)
  await remove('blob', old)
  t.equal(Buffer.from((await store.blobs.read('blob'))?.[0] ?? []).toString(), 'of one')
  await remove('blob', next)
  t.equal(await store.blobs.read('blob'), undefined)
})

type Mode = 'well' | 'paused' | 'cut' | 'unheard'

/** The database as one process sees it: `unheard`, what it asks is done and the answer lost. */
function faulty(leases: Leases, mode: () => Mode): Leases {
  const failing = <A extends unknown[], R>(method: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      if (mode() === 'cut') throw new StorageUnavailable('cut off')
      const answer = await method(...args)
      if (mode() === 'unheard') throw new StorageUnavailable('the answer was lost')
      return answer
    }
  }
  return {
    take: failing(leases.take),
    release: failing(leases.release),
    held: failing(leases.held),
    forgetOld: failing(leases.forgetOld),
  }
}

const WORK = Array.from({ length: 9 }, (_, at) => `work/${at}`)
const PIECES = WORK.slice(0, 4) // of the model: each write costs a transaction
const OWNERS = 3
const owner = fc.nat(OWNERS - 1)
const mode = fc.constantFrom<Mode>('well', 'paused', 'cut', 'unheard')
const beats = fc.integer({ min: 1, max: 6 }) // a lease ends after four
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ does: fc.constant('pass' as const), beats }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('begin' as const), owner }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('finish' as const), at: fc.nat(8) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('fault' as const), owner, mode }) },
)

/** The same, and the epoch that stands for each name by what was asked of the database and done. */
function watchedLeases(leases: Leases) {
  const standing = new Map<string, number>()
  const watched: Leases = {
    ...leases,
    async take(...args) {
      const taken = await leases.take(...args)
      for (const { name, epoch } of taken) standing.set(name, epoch)
      return taken
    },
    async release(given) {
      await leases.release(given)
      for (const { name, epoch } of given) if (standing.get(name) === epoch) standing.delete(name)
    },
  }
  return { leases: watched, stands: ({ name, epoch }: Lease) => standing.get(name) === epoch }
}

const RUNS = 4

/** Owners that are paused, cut off or an hour apart: what one writes was its own, and in the end all is somebody's. */
function ownersOf(store: Store, fence: typeof leaseStands) {
  let runs = 0
  return fc.asyncProperty(
    fc.noShrink(fc.array(step, { minLength: 15, maxLength: 30 })),
    fc.array(fc.constantFrom(-HOUR, 0, HOUR), { minLength: OWNERS, maxLength: OWNERS }),
    async (steps, ahead) => {
      await store.db.deleteFrom('leases').execute()
      runs += 1
      const time = createTime()
      const { leases: real, stands } = watchedLeases(createLeases(store.db, time.dialect))
      const owners = ahead.map((ms, at) => {
        const one = { mode: 'well' as Mode }
        const membership = createMembership({
          leases: faulty(real, () => one.mode),
          clock: time.clock(ms, () => one.mode === 'paused'),
          self: `run-${runs}-owner-${at}`,
          onProblem: () => {},
        })
        membership.want('work', PIECES)
        return Object.assign(one, { membership })
      })
      const pending: Lease[] = []

      async function pass(beats: number): Promise<void> {
        for (let left = beats; left > 0; left -= 1) {
          time.advance(3_000)
          for (const { mode, membership } of owners) if (mode !== 'paused') await membership.round()
        }
      }

      await pass(2)
      for (const one of steps) {
        if (one.does === 'pass') await pass(one.beats)
        else if (one.does === 'fault') (owners[one.owner] as { mode: Mode }).mode = one.mode
        else if (one.does === 'begin') {
          const { mode, membership } = owners[one.owner] as (typeof owners)[number]
          if (mode !== 'paused') pending.push(...PIECES.flatMap((name) => membership.lease(name) ?? []))
        } else {
          const [lease] = pending.splice(one.at, 1)
          const isWritten = lease && (await fenced(store, lease, () => {}, fence))
          if (lease && isWritten !== stands(lease)) return false
        }
      }
      for (const lease of pending) {
        if ((await fenced(store, lease, () => {}, fence)) !== stands(lease)) return false
      }
      for (const one of owners) Object.assign(one, { mode: 'well' })
      await pass(5)
      const holders = PIECES.map((name) => owners.filter(({ membership }) => membership.lease(name)).length)
      const seen = owners.map(({ membership }) => membership.members().length)
      return holders.every((count) => count === 1) && seen.every((count) => count === OWNERS)
    },
  )
}

test('owners that are paused, cut off or an hour apart write under the epoch that stands, and no other', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await opened(t)
  if (!store) return
  await proven(t, RUNS, ownersOf(store, leaseStands))
  const unfenced = ownersOf(store, async () => true)
  await t.rejects(proven(t, RUNS, unfenced), /^Property failed/, 'without the fence they do not')
})

test('a dead member´s work is with the others within 15 s, and theirs stays where it is', {
  skip: NO_POSTGRES,
}, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { time, leases } = timed
  const members = ['one', 'two', 'three'].map((self) => {
    const membership = createMembership({ leases, clock: time.clock(0), self, onProblem: t.fail })
    membership.want('work', WORK)
    return membership
  })
  const [, two, three] = members
  const round = async (alive: typeof members) => {
    time.advance(3_000)
    for (const one of alive) await one.round()
  }
  for (let times = 0; times < 3; times += 1) await round(members)
  const mine = WORK.filter((name) => two?.lease(name))
  let waited = 0
  const left = members.slice(1)
  while (WORK.some((name) => !left.some((one) => one.lease(name)))) {
    await round(left)
    waited += 3
  }
  t.ok(waited <= 15, `${waited} s`)
  t.ok(
    mine.every((name) => two?.lease(name)),
    'what two had it has',
  )
  await two?.close()
  await three?.round()
  t.ok(
    WORK.every((name) => three?.lease(name)),
    'who leaves in order is not waited for',
  )
  t.same(three?.members(), ['three'])
})

test('work of which the member that would have it does not know is done by one that may know of more', {
  skip: NO_POSTGRES,
}, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { time, leases } = timed
  const all = ['old', 'new'].map((self) =>
    createMembership({ leases, clock: time.clock(0), self, onProblem: t.fail }),
  )
  const [old, fresh] = all
  const [known, added] = [WORK.slice(0, 4), WORK]
  let newest = ['old', 'new']
  const also = () => newest
  old?.want('work', known, { also })
  fresh?.want('work', known, { also })
  const round = async () => {
    time.advance(3_000)
    for (const one of all) await one.round()
  }
  const heldBy = (one: typeof old) => WORK.filter((name) => one?.lease(name))
  for (let times = 0; times < 3; times += 1) await round()
  const before = heldBy(old)
  newest = ['new']
  fresh?.want('work', added, { also })
  for (let times = 0; times < 3; times += 1) await round()
  t.same(heldBy(old), before, 'what the older has it keeps')
  t.same(
    heldBy(fresh),
    WORK.filter((name) => !before.includes(name)),
    'and the newer has all that is left',
  )
  newest = ['old', 'new']
  old?.want('work', added, { also })
  for (let times = 0; times < 3; times += 1) await round()
  const alone = createRendezvous(newest)
  t.same(
    heldBy(old),
    WORK.filter((name) => alone(name) === 'old'),
    'once both know it they share it evenly',
  )
})
