import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { SignalRow } from '../../src/adcp/signal.js'
import { createPruner, readRow } from '../../src/upstreams/rows/listing.js'
import { row } from '../support/upstream-world.js'

const SEED = 20261120
const prune = createPruner(SignalRow)

/** Any JSON, with the names that rows use, so that values of every kind land in every field. */
const names = [
  ...Object.keys(SignalRow.properties),
  'type',
  'model',
  'scope',
  'metadata',
  'stranger',
  '__proto__',
]
const anything = fc
  .letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string(),
      fc.double(),
      fc.constant(null),
      fc.boolean(),
      tie('list'),
      tie('object'),
    ),
    list: fc.array(tie('value'), { maxLength: 3 }),
    object: fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 6 }),
  }))
  .value.map((value): unknown => JSON.parse(JSON.stringify(value) ?? 'null'))

test('pruning twice is pruning once, and never changes what it was given', async (t) => {
  t.comment(`seed ${SEED}`)
  fc.assert(
    fc.property(anything, (value) => {
      const before = JSON.stringify(value)
      const once = prune(value)
      return isDeepStrictEqual(prune(once), once) && JSON.stringify(value) === before
    }),
    { seed: SEED, numRuns: 500 },
  )
})

test('whatever strangers stand in a good row, the same listing comes out', async (t) => {
  t.comment(`seed ${SEED}`)
  const strangers = fc.dictionary(
    fc.string().map((name) => `x_${name}`),
    anything,
    { maxKeys: 5 },
  )
  const expected = readRow(Buffer.from(JSON.stringify(row(1))))
  fc.assert(
    fc.property(strangers, (extra) => {
      const deployments = (row(1).deployments as object[]).map((each) => ({ ...each, ...extra }))
      const read = readRow(Buffer.from(JSON.stringify(row(1, { ...extra, deployments }))))
      if (read.kind === 'dropped') return read.reason === 'too_large'
      return expected.kind === 'listing' && isDeepStrictEqual(read.listing, expected.listing)
    }),
    { seed: SEED, numRuns: 200 },
  )
})

test('reading a row never throws', async (t) => {
  t.comment(`seed ${SEED}`)
  fc.assert(
    fc.property(
      anything,
      fc.dictionary(fc.constantFrom(...names), anything, { maxKeys: 4 }),
      (value, over) => {
        readRow(Buffer.from(JSON.stringify(value) ?? ''))
        readRow(Buffer.from(JSON.stringify({ ...row(1), ...over })))
        return true
      },
    ),
    { seed: SEED, numRuns: 500 },
  )
})
