/**
 * A complete answer that has lost most of its rows is not believed at once, and neither is a registry listing that has lost
 * most of its agents: an agent that restarts may answer before its data is loaded. It is believed when a second, later answer
 * has no more rows than the first. If it has more, the agent is still loading.
 */
import { type CallFailure, callFailed } from './agent.js'

const SECOND_LOOK_MS = 30_000 // the longest wait before the second look
const FEW = 10 // with fewer rows, a loss of half is normal

type DoubtOptions = {
  /** What is counted, for people. Default: rows. */
  of?: string
  /** How often it is read, ms: the second look does not wait longer. */
  refreshMs: number
  now(): number
}

function isLoss(before: number, rows: number): boolean {
  return rows === 0 ? before > 0 : before >= FEW && rows * 2 < before
}

/** Of one listing. */
export function createDoubt({ of = 'rows', refreshMs, now }: DoubtOptions) {
  const laterMs = Math.min(SECOND_LOOK_MS, refreshMs)
  let first: { rows: number; at: number } | undefined

  function clear(): void {
    first = undefined
  }

  /** Why an answer with `rows` rows cannot replace one with `before` rows yet; undefined when it can. */
  function about(before: number, rows: number): CallFailure | undefined {
    if (!isLoss(before, rows)) {
      clear()
      return undefined
    }
    const isLater = first && now() - first.at >= laterMs / 2
    if (first && isLater && rows <= first.rows) {
      clear()
      return undefined
    }
    if (!first || isLater) first = { rows, at: now() }
    return callFailed('shrunken_feed', `${rows} of ${before} ${of} are left`, first.at + laterMs - now())
  }

  return { about, clear }
}

export type Doubt = ReturnType<typeof createDoubt>
