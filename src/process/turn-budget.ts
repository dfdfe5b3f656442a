/**
 * How long one turn of the loop works on requests. Node hands over in one turn all that has arrived, on one connection or on
 * thousands, and nothing else happens before the last of it is answered. So a turn works for some milliseconds, the rest waits
 * for the next, and those who ask take turns.
 */
import { performance } from 'node:perf_hooks'

/** A fifth of the longest stop that is allowed: one request, and what else the turn does, come on top. */
const BUDGET_MS = 10
/** Looking at the time costs half a per cent of a small answer, so it is looked at before each fourth. */
const UNTIMED = 4

type TurnTime = {
  /** Ms. */
  now(): number
  /** Calls once, in the next turn. */
  nextTurn(task: () => void): unknown
}

const THIS_THREAD: TurnTime = { now: () => performance.now(), nextTurn: setImmediate }

export function createTurnBudget({ now, nextTurn }: TurnTime = THIS_THREAD) {
  /** What waits, by who asked, in the order of their turns. */
  const waiting = new Map<string, (() => void)[]>()
  let untimed = UNTIMED
  /** When the turn began that is timed. */
  let begunAt: number | undefined

  const isUsedUp = (begun: number) => now() - begun >= BUDGET_MS

  function beginTiming(): void {
    begunAt = now()
    nextTurn(turn)
  }

  /** The oldest work of each owner, one owner after the other, as long as there is time. */
  function takeTurns(begun: number): void {
    for (const [owner, works] of waiting) {
      works.shift()?.()
      waiting.delete(owner)
      if (works.length > 0) waiting.set(owner, works) // behind all others, where this loop comes to it again
      if (isUsedUp(begun)) return
    }
  }

  function turn(): void {
    takeTurns(now())
    untimed = UNTIMED
    begunAt = undefined
    if (waiting.size > 0) beginTiming()
  }

  return {
    /** Whether work that comes now is for a later turn: this one has used its time, or others wait already. */
    isSpent(): boolean {
      if (waiting.size > 0) return true
      untimed -= 1
      if (untimed > 0) return false
      untimed = UNTIMED
      if (begunAt !== undefined) return isUsedUp(begunAt)
      beginTiming()
      return false
    },
    /** Does the work in a later turn, after what its owner asked for before, and gives its result. */
    later<T>(owner: string, work: () => T | Promise<T>): Promise<T> {
      if (begunAt === undefined) beginTiming()
      return new Promise((resolve, reject) => {
        const works = waiting.get(owner) ?? []
        waiting.set(owner, works)
        works.push(() => {
          try {
            resolve(work())
          } catch (error) {
            reject(error)
          }
        })
      })
    },
    /** How many works of an owner wait. */
    waiting: (owner: string): number => waiting.get(owner)?.length ?? 0,
  }
}
