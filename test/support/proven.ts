/** Property tests: the same cases at every run, so that a failure is a change's; other cases, and more, when they are asked for. */
import fc from 'fast-check'

const { SEED = '20261120', SOAK = '1' } = process.env

/**
 * `runs`: how many cases `npm test` tries. SOAK=n takes n times as many, as `npm run test:slow` does; SEED=n takes other
 * cases than the usual ones. `npm run soak` does both.
 */
export function proven<T>(
  t: { comment(text: string): void },
  runs: number,
  property: fc.IProperty<T> | fc.IAsyncProperty<T>,
) {
  const options = { seed: Number(SEED), numRuns: runs * Number(SOAK) }
  t.comment(`seed ${SEED}, ${options.numRuns} runs`)
  return fc.assert(property as fc.IProperty<T>, options)
}
