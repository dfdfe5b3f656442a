/** How long promised work is kept after its end, and how it is forgotten then. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { PromisedRecords } from './promised-work.js'
import type { EndedAmong, ForgetPosition } from './records/ledger.js'

const A_STEP = 200 // rows: one short statement, after which others get a turn, however much there is to delete
const MOST_STEPS = 500 // of one round; the next round does the rest
const DAY_MS = 24 * 60 * 60 * 1_000

/** How long things are kept after their end, ms. */
export type Retention = {
  /** Answers for repeated requests, counted from the outcome. */
  answersMs: number
  /** Calls, questions and notices: at least as long as answers, because a key is bound to the calls made under it. */
  callsMs: number
  /** Tasks, with their results. */
  tasksMs: number
  /** Ledger entries on which nothing rests any more; absent: they are kept for ever. */
  ledgerMs?: number
}

export const DEFAULT_RETENTION: Retention = {
  answersMs: DAY_MS,
  callsMs: 30 * DAY_MS,
  tasksMs: 30 * DAY_MS,
}

/**
 * Deletes what has expired, a little at a time. Each call is one round: it resolves when nothing expired is left, or the round has
 * done its number of steps.
 */
export function createForgetting(
  { idempotency, jobs, tasks, ledger }: PromisedRecords,
  { callsMs, tasksMs, ledgerMs }: Retention,
  ended: EndedAmong,
) {
  let lookedAt: ForgetPosition | undefined // entries that must be kept are passed, so that no round looks at them again

  async function ofLedger(before: number): Promise<number> {
    lookedAt = await ledger.forget(before, A_STEP, ended, lookedAt)
    return lookedAt ? A_STEP : 0
  }

  return async function forget(now: number): Promise<void> {
    const kinds = [
      () => idempotency.forgetExpired(A_STEP),
      () => jobs.forgetEnded(now - callsMs, A_STEP),
      () => tasks.forgetFinished(now - tasksMs, A_STEP),
      ...(ledgerMs === undefined ? [] : [() => ofLedger(now - ledgerMs)]),
    ]
    for (const one of kinds) {
      for (let step = 0; step < MOST_STEPS && (await one()) === A_STEP; step += 1) await nextTurn()
    }
  }
}
