/** Work that is watched, and how others go on beside it. */
import type { InPortions } from '../../../src/process/portions.js'

/** More than are ever taken before somebody leaves. */
export const MOST_STEPS = 1_000_000

/** Work that tells how far it came, and that it has let go of what it holds. */
export function createWork() {
  const told = { begun: 0, steps: 0, released: 0 }
  function* work(most: number): InPortions<number> {
    told.begun += 1
    try {
      for (let step = 0; step < most; step += 1) {
        told.steps += 1
        yield
      }
      return most
    } finally {
      told.released += 1
    }
  }
  return { told, work }
}

/** Lets so many turns of the loop pass. */
export const turns = async (count: number) => {
  for (let at = 0; at < count; at += 1) await new Promise(setImmediate)
}
