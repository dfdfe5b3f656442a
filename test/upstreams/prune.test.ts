import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { SignalRow } from '../../src/adcp/signal.js'
import { createPruner, readRow } from '../../src/upstreams/rows/listing.js'
import { proven } from '../support/proven.js'
import { row } from '../support/upstream-world.js'

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
  proven(
    t,
    500,
    fc.property(anything, (value) => {
      const before = JSON.stringify(value)
      const once = prune(value)
      return isDeepStrictEqual(prune(once), once) && JSON.stringify(value) === before
    }),
  )
})

test('whatever strangers stand in a good row, the same listing comes out', async (t) => {
  const strangers = fc.dictionary(
    fc.string().map((name) => `x_${name}`),
    anything,
    { maxKeys: 5 },
  )
  const expected = readRow(Buffer.from(JSON.stringify(row(1))))
  proven(
    t,
    200,
    fc.property(strangers, (extra) => {
      const deployments = (row(1).deployments as object[]).map((each) => ({ ...each, ...extra }))
      const read = readRow(Buffer.from(JSON.stringify(row(1, { ...extra, deployments }))))
      if (read.kind === 'dropped') return read.reason === 'too_large'
      return expected.kind === 'listing' && isDeepStrictEqual(read.listing, expected.listing)
    }),
  )
})

test('reading a row never throws', async (t) => {
  proven(
    t,
    500,
    fc.property(
      anything,
      fc.dictionary(fc.constantFrom(...names), anything, { maxKeys: 4 }),
      (value, over) => {
        readRow(Buffer.from(JSON.stringify(value) ?? ''))
        readRow(Buffer.from(JSON.stringify({ ...row(1), ...over })))
        return true
      },
    ),
  )
})
