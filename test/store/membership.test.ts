/** Who does which work among processes that come, go, are paused or cut off. */
import fc from 'fast-check'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { createLeases, type Lease, type Leases, leaseStands } from '../../src/store/replicas/leases.js'
import { createMembership, createRendezvous } from '../../src/store/replicas/membership.js'
import type { Store } from '../../src/store/store.js'
import { proven } from '../support/proven.js'
import { beats, createTime, fenced, HOUR, opened, openedInTime } from './support/lease-time.js'
import { NO_POSTGRES } from './support/storages.js'

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

const WORKERS = ['one', 'two', 'three']
const WORK = Array.from({ length: 9 }, (_, at) => `work/${at}`)
const PIECES = WORK.slice(0, 4) // of the model: each write costs a transaction
const OWNERS = 3
const owner = fc.nat(OWNERS - 1)
const mode = fc.constantFrom<Mode>('well', 'paused', 'cut', 'unheard')
const lengths = fc.integer({ min: 1, max: 6 }) // a lease ends after four
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ does: fc.constant('pass' as const), beats: lengths }) },
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

      const pass = (count: number) => {
        const awake = owners.flatMap(({ mode, membership }) => (mode === 'paused' ? [] : [membership]))
        return beats(time, awake, count)
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
  await beats(time, members, 3)
  const mine = WORK.filter((name) => two?.lease(name))
  let waited = 0
  const left = members.slice(1)
  while (WORK.some((name) => !left.some((one) => one.lease(name)))) {
    await beats(time, left)
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
  const heldBy = (one: typeof old) => WORK.filter((name) => one?.lease(name))
  await beats(time, all, 3)
  const before = heldBy(old)
  newest = ['new']
  fresh?.want('work', added, { also })
  await beats(time, all, 3)
  t.same(heldBy(old), before, 'what the older has it keeps')
  t.same(
    heldBy(fresh),
    WORK.filter((name) => !before.includes(name)),
    'and the newer has all that is left',
  )
  newest = ['old', 'new']
  old?.want('work', added, { also })
  await beats(time, all, 3)
  const alone = createRendezvous(newest)
  t.same(
    heldBy(old),
    WORK.filter((name) => alone(name) === 'old'),
    'once both know it they share it evenly',
  )
})

test('what few may do stays with whoever of them has it, until it ends, leaves it or may no longer', {
  skip: NO_POSTGRES,
}, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { time, leases } = timed
  const passed = new Set<string>()
  let few = WORKERS
  const alive = new Map<string, ReturnType<typeof createMembership>>()
  const join = (self: string) => {
    const membership = createMembership({
      ...{ leases, clock: time.clock(0), self, onProblem: t.fail },
      passedBy: () => [...passed],
    })
    membership.want('work', WORK, { only: () => few.filter((one) => alive.has(one)) })
    alive.set(self, membership)
  }
  const rounds = (count: number) => beats(time, [...alive.values()], count)
  const has = (self: string) => WORK.filter((name) => alive.get(self)?.lease(name))
  join('one')
  await rounds(1)
  for (const self of WORKERS.slice(1)) join(self)
  await rounds(3)
  t.same(has('one'), WORK, 'whoever joins takes nothing')
  const winner = createRendezvous(WORKERS)
  t.ok(
    WORK.some((name) => winner(name) !== 'one'),
    'of what would be its own by the names',
  )
  few = ['two', 'three']
  await rounds(3)
  t.same([...has('two'), ...has('three')].sort(), WORK, 'who may no longer gives it away')
  few = WORKERS
  await rounds(3)
  t.same(has('one'), [], 'and may again, without having it')
  passed.add('two')
  await rounds(3)
  t.same([has('two'), [...has('one'), ...has('three')].sort()], [[], WORK], 'what is left is others´')
  passed.clear()
  alive.delete('three') // it dies
  await rounds(5)
  t.same([...has('one'), ...has('two')].sort(), WORK, 'and a dead one´s')
})
