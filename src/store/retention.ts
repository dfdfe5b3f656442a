/**
 * Forgets what is past its time, a little at a time: each step is one short statement, with a turn for everybody else
 * after it, however much there is to forget.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { REPLAY_TTL_MS } from './idempotency.js'
import type { Store } from './store.js'

const A_STEP = 200
const MOST_STEPS = 500 // of one round: what is left is for the next

const DAY_MS = 24 * 60 * 60 * 1_000

/** How long things are kept after their end, ms. */
export type Retention = {
  /** Calls, questions and notices. */
  jobsMs: number
  /** Tasks, with their results. */
  tasksMs: number
  /** Entries that nothing can come of any more; absent: for ever. */
  ledgerMs?: number
}

export const DEFAULT_RETENTION: Retention = { jobsMs: 30 * DAY_MS, tasksMs: 30 * DAY_MS }

/** A key is bound to the calls that were made under it. */
export const LEAST_JOBS_MS = REPLAY_TTL_MS

type Forgetful = Pick<Store, 'idempotency' | 'jobs' | 'tasks' | 'ledger'>

/** Resolves when nothing past its time is left, or the round has done its share. */
export async function forgetOld(store: Forgetful, retention: Retention, now: number): Promise<void> {
  const { jobsMs, tasksMs, ledgerMs } = retention
  const kinds = [
    () => store.idempotency.forgetExpired(A_STEP),
    () => store.jobs.forgetEnded(now - Math.max(jobsMs, LEAST_JOBS_MS), A_STEP),
    () => store.tasks.forgetFinished(now - tasksMs, A_STEP),
    ...(ledgerMs === undefined ? [] : [() => store.ledger.forget(now - ledgerMs, A_STEP)]),
  ]
  for (const forget of kinds) {
    for (let step = 0; step < MOST_STEPS && (await forget()) === A_STEP; step += 1) await nextTurn()
  }
}
