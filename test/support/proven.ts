/** Property tests: the same cases at every run, so that a failure is a change's; other cases, and more, when they are asked for. */
import fc from 'fast-check'
import { SOAK } from './longest.js'

const { SEED = '20261120' } = process.env

type Teller = { comment(text: string): void }

/**
 * `runs`: how many cases `npm test` tries. SOAK=n takes n times as many, as `npm run test:slow` does with every file that
 * imports this one (test/run.ts); SEED=n takes other cases than the usual ones. `npm run soak` does both.
 */
export function proven<T>(t: Teller, runs: number, property: fc.IAsyncProperty<T>): Promise<void>
export function proven<T>(t: Teller, runs: number, property: fc.IProperty<T>): void
export function proven<T>(
  t: Teller,
  runs: number,
  property: fc.IProperty<T> | fc.IAsyncProperty<T>,
): Promise<void> | void {
  const options = { seed: Number(SEED), numRuns: runs * SOAK }
  t.comment(`seed ${SEED}, ${options.numRuns} runs`)
  return fc.assert(property as fc.IProperty<T>, options)
}
