/**
 * Work on the storage that is done together: what arrives while one lot is done is the next lot, with one statement and one
 * commit for all of it, because a commit waits for the disk and a statement is a round trip to the database.
 */
import pLimit from 'p-limit'
import { isHeldUp, isUnavailable } from './unavailable.js'

const MOST_TOGETHER = 128 // bounds how long one step waits for the others, and how long their statements get
const MOST_ALONE = 4 // each needs its own connection

type LotsOptions<W> = {
  /** Resolves when the next lot may begin; what arrives until then is part of it. Default: at once. */
  next?(): Promise<unknown>
  /** How many it counts for, when it is larger than others. Default: one. */
  weight?(what: W): number
}

type Waiting<W, R> = { what: W; resolve(result: R): void; reject(error: unknown): void }

/**
 * `write` gives one result for each member of a lot, in their order. A member that cannot be written does not fail the
 * others of its lot, and one that waits for another process delays only its own lot.
 */
export function createLots<W, R>(
  write: (lot: readonly W[]) => Promise<readonly R[]>,
  { next, weight = () => 1 }: LotsOptions<W> = {},
): (what: W) => Promise<R> {
  const waiting: Waiting<W, R>[] = []
  const alone = pLimit(MOST_ALONE)
  let isWriting = false

  async function writeLot(lot: readonly Waiting<W, R>[]): Promise<void> {
    try {
      const results = await write(lot.map(({ what }) => what))
      for (const [index, { resolve }] of lot.entries()) resolve(results[index] as R)
    } catch (error) {
      const isOfAll = lot.length === 1 || (isUnavailable(error) && !isHeldUp(error))
      if (isOfAll) for (const { reject } of lot) reject(error)
      else for (const one of lot) void alone(() => writeLot([one]))
    }
  }

  /** The first of those that wait, and what fits in a lot with it. */
  function taken(): Waiting<W, R>[] {
    let [count, sum] = [0, 0]
    for (const { what } of waiting) {
      sum += weight(what)
      if (count > 0 && sum > MOST_TOGETHER) break
      count += 1
    }
    return waiting.splice(0, count)
  }

  async function drain(): Promise<void> {
    isWriting = true
    while (waiting.length > 0) {
      if (next) await next()
      await writeLot(taken())
    }
    isWriting = false
  }

  return (what) =>
    new Promise((resolve, reject) => {
      waiting.push({ what, resolve, reject })
      if (!isWriting) void drain()
    })
}
