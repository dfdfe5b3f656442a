/** Work that takes long, done in portions between which other requests are served. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Resolves when the work is done. */
export async function inTurns(work: Iterator<unknown>): Promise<void> {
  do await nextTurn()
  while (!work.next().done)
}
