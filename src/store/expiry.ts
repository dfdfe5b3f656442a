/**
 * Deletes what has expired, a little at a time: each step is one short statement, and others get a turn after it,
 * however much there is to delete.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { REPLAY_TTL_MS } from './records/idempotency.js'
import type { ForgetPosition } from './records/ledger.js'
import type { Store } from './store.js'

const A_STEP = 200
const MOST_STEPS = 500 // of one round; the next round does the rest

const DAY_MS = 24 * 60 * 60 * 1_000

/** How long things are kept after their end, ms. */
export type Retention = {
  /** Answers for repeated requests, counted from the first request. */
  answersMs: number
  /** Calls, questions and notices: at least as long as answers, because a key is bound to the calls made under it. */
  callsMs: number
  /** Tasks, with their results. */
  tasksMs: number
  /** Ledger entries that nothing can change any more; absent: they are kept for ever. */
  ledgerMs?: number
}

export const DEFAULT_RETENTION: Retention = {
  answersMs: REPLAY_TTL_MS,
  callsMs: 30 * DAY_MS,
  tasksMs: 30 * DAY_MS,
}

type Forgetful = Pick<Store, 'idempotency' | 'jobs' | 'tasks' | 'ledger'>

/** Each call is one round: it resolves when nothing expired is left, or the round has done its number of steps. */
export function createForgetting(store: Forgetful, { callsMs, tasksMs, ledgerMs }: Retention) {
  let lookedAt: ForgetPosition | undefined // entries that must be kept are passed, so that no round looks at them again

  async function ofLedger(before: number): Promise<number> {
    lookedAt = await store.ledger.forget(before, A_STEP, lookedAt)
    return lookedAt ? A_STEP : 0
  }

  return async function forget(now: number): Promise<void> {
    const kinds = [
      () => store.idempotency.forgetExpired(A_STEP),
      () => store.jobs.forgetEnded(now - callsMs, A_STEP),
      () => store.tasks.forgetFinished(now - tasksMs, A_STEP),
      ...(ledgerMs === undefined ? [] : [() => ofLedger(now - ledgerMs)]),
    ]
    for (const one of kinds) {
      for (let step = 0; step < MOST_STEPS && (await one()) === A_STEP; step += 1) await nextTurn()
    }
  }
}
