/** Leases that end by a time that the test moves. */
import { sql } from 'kysely'
import type { Test } from 'tap'
import type { Clock } from '../../../src/net/clock.js'
import { POSTGRES } from '../../../src/store/database/database.js'
import { createLeases, type Lease, leaseStands } from '../../../src/store/replicas/leases.js'
import type { Store } from '../../../src/store/store.js'
import { shared } from './storages.js'

export const HOUR = 3_600_000
const START = Date.UTC(2026, 0, 15)

/** Time that only the test moves: the database's, and that of processes whose clocks are wrong. */
export function createTime() {
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

export async function opened(t: Test): Promise<Store | undefined> {
  return (await shared(t))?.open()
}

/** Leases that end by the time of the test. */
export async function openedInTime(t: Test) {
  const store = await opened(t)
  if (!store) return undefined
  const time = createTime()
  return { store, time, leases: createLeases(store.db, time.dialect) }
}

/** Written under the lease, if it stands; or if another fence says so. */
export function fenced({ db }: Store, lease: Lease, work: () => void, fence = leaseStands): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const may = await fence(tx, lease)
    if (may) work()
    return may
  })
}

/** So many beats of these members, one after the other each time. */
export async function beats(
  time: ReturnType<typeof createTime>,
  members: readonly { round(): Promise<void> }[],
  count = 1,
): Promise<void> {
  for (let left = count; left > 0; left -= 1) {
    time.advance(3_000)
    for (const one of members) await one.round()
  }
}
