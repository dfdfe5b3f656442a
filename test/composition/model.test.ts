import fc from 'fast-check'
import { test } from 'tap'
import { proven } from '../support/proven.js'
import { changesOfOneWorld, runChanges } from './support/model.js'

const RUNS = 1
const CHANGES = 20 // of each run; thousands of them are tried by `npm run soak`

test('whatever changes in whatever order, every reader is told what there is, or what is missing', async (t) => {
  const changes = fc.noShrink(changesOfOneWorld(CHANGES)) // a shorter sequence would take minutes to find
  const property = fc.asyncProperty(changes, async (sequence) => {
    const steps = { count: 0 }
    await runChanges(sequence, steps)
    return steps.count === CHANGES
  })
  await t.resolves(proven(t, RUNS, property))
})
