/** Work over a whole feed, done in portions between which other requests are served. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { InPortions } from '../threads/portions.js'

/** Resolves with what the work comes to. */
export async function finished<T>(work: InPortions<T>): Promise<T> {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    await nextTurn()
  }
}
