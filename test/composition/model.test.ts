import fc from 'fast-check'
import { test } from 'tap'
import { changesOfOneWorld, runChanges } from './support/model.js'

const SEED = 1 // `npm run soak` takes another each time
const RUNS = 2
const CHANGES = 60 // of each run; thousands of them are tried by `npm run soak`

test('whatever changes in whatever order, every reader is told what there is, or what is missing', {
  timeout: 300_000,
}, async (t) => {
  const steps = { count: 0 }
  const property = fc.asyncProperty(changesOfOneWorld(CHANGES), (sequence) => runChanges(sequence, steps))
  await fc.assert(property, { seed: SEED, numRuns: RUNS, endOnFailure: true })
  t.equal(steps.count, RUNS * CHANGES)
})
