/**
 * Bounds how many calls are under way, per upstream and in all, without a queue that one upstream could fill: a call
 * first waits among the calls of its own upstream, and only then for one of the common places (docs/house.md: a bad
 * upstream never hurts the feed).
 */
import pLimit, { type LimitFunction } from 'p-limit'
import { within } from '../../net/clock.js'
import { type AgentOutcome, type Budget, callFailed } from './agent.js'

const MAX_WAITING = 200 // waiting calls of one upstream; more than this would not get a turn in time

/** Runs a call when there is a place, with the rest of its budget; resolves by the end of the budget in any case. */
export type Slots = (budget: Budget, run: (budget: Budget) => Promise<AgentOutcome>) => Promise<AgentOutcome>

/** For one upstream: `concurrency` calls at once, within `total` for all upstreams. */
export function createSlots(total: LimitFunction, concurrency: number): Slots {
  const own = pLimit(concurrency)

  return (budget, run) => {
    if (own.pendingCount >= MAX_WAITING) {
      return Promise.resolve(callFailed('backing_off', `${MAX_WAITING} calls are waiting already`))
    }
    const startedAt = Date.now()
    const left = () => budget.timeoutMs - (Date.now() - startedAt)

    async function started(): Promise<AgentOutcome> {
      if (left() <= 0) return callFailed('timeout', 'no place was free in time')
      if (budget.signal?.aborted) return callFailed('aborted', 'the caller gave up')
      return run({ ...budget, timeoutMs: left() })
    }

    // Some waits are shared with other callers (a handshake, a place): none may outlast this call's budget.
    const { timeoutMs } = budget
    return within(
      own(() => total(started)),
      { timeoutMs },
      () => callFailed('timeout', 'no answer in time'),
    )
  }
}
