/**
 * One time for all processes on a storage: the database's. Their own clocks may be wrong, and what one writes down as an
 * instant another compares with its own. A clock that is kept in step, as by NTP, stays as it is: differences below a second
 * and the duration of the question are ignored.
 */
import type { Clock } from '../../net/clock.js'

const TOLERATED_MS = 1_000
const LOOK_EVERY_MS = 10_000

type SharedTimeOptions = {
  /** Of this process. */
  own: Clock
  /** Receives what an operator should know. */
  onProblem(problem: string): void
}

/** Until the first answer its clock is this process's own. */
export function createSharedTime({ own, onProblem }: SharedTimeOptions) {
  let aheadMs = 0
  let cancel = () => {}
  let closed = false

  const clock: Clock = { now: () => own.now() + aheadMs, after: own.after }

  /** Asks the database once. Rejects when it does not answer. */
  async function look(databaseNow: () => Promise<number>): Promise<void> {
    const askedAt = own.now()
    const theirs = await databaseNow()
    const tookMs = own.now() - askedAt
    const found = Math.round(theirs - askedAt - tookMs / 2)
    if (tookMs < 0 || Math.abs(found - aheadMs) <= TOLERATED_MS + tookMs / 2) return
    const how = found < 0 ? 'ahead of' : 'behind'
    onProblem(`this process's clock is ${Math.abs(found)} ms ${how} the database's, whose time counts`)
    aheadMs = found
  }

  return {
    clock,
    /** Follows it from now on; resolves after the first look. Rejects when that had no answer. */
    async follow(databaseNow: () => Promise<number>): Promise<void> {
      const later = () => {
        if (!closed) cancel = own.after(LOOK_EVERY_MS, again)
      }
      const again = () =>
        void look(databaseNow)
          .catch(() => {}) // the storage tells of its own troubles
          .then(later)
      await look(databaseNow)
      later()
    },
    close(): void {
      closed = true
      cancel()
    },
  }
}
