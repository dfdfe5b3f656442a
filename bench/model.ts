/**
 * Thousands of changes of a scripted world in random order, each reader's answer compared with the model's after each of
 * them (test/composition/support/model.ts). `node dist/bench/model.js [changes] [seed]`.
 */
import fc from 'fast-check'
import { changesOfOneWorld, runChanges } from '../test/composition/support/model.js'
import { givenNumber } from '../test/support/given.js'

const CHANGES = givenNumber(0, 3_000)
const SEED = givenNumber(1, Date.now())
const AT_ONCE = 100 // changes of one world

const steps = { count: 0 }
const property = fc.asyncProperty(changesOfOneWorld(AT_ONCE), async (sequence) => {
  const startedAt = Date.now()
  await runChanges(sequence, steps)
  const perSecond = (AT_ONCE / (Date.now() - startedAt)) * 1_000
  console.log(`${steps.count} changes, ${perSecond.toFixed(1)} a second, every answer as it should be`)
})
console.log(`seed ${SEED}`)
await fc.assert(property, { seed: SEED, numRuns: Math.ceil(CHANGES / AT_ONCE), endOnFailure: true })
