/** What is remembered of rows that countries narrow is what the rows say, whoever asked for which countries before. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { createNarrowing } from '../../src/feed/narrowing.js'
import type { Row } from '../../src/merge/row.js'
import { createMeter } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { keyWords, rowWords } from '../../src/snapshot/digests.js'
import { proven } from '../support/proven.js'
import { agentUrl, judgeThat, listing, sliceOf } from './world.js'

const UPSTREAMS = ['alpha', 'beta', 'gamma']
const someCountries = fc.subarray(['DE', 'FR', 'US'], { minLength: 1 })

/** Few listings of one signal, which several upstreams send byte for byte alike. */
const sold = fc.constantFrom(
  listing('s'),
  listing('s', { coverage_percentage: 70, countries: ['DE', 'US'], pricing_options: [] }),
)
const world = fc.record({
  listings: fc.array(sold, { minLength: UPSTREAMS.length, maxLength: UPSTREAMS.length }),
  granted: fc.array(fc.option(someCountries), { minLength: UPSTREAMS.length, maxLength: UPSTREAMS.length }),
})

test('the facts of a narrowed row are those of the row, in whatever order countries were asked for', (t) => {
  let narrowed = 0
  proven(
    t,
    150,
    fc.property(
      world,
      fc.array(someCountries, { minLength: 2, maxLength: 4 }),
      ({ listings, granted }, asked) => {
        const judge = judgeThat({
          decide(_, url) {
            const countries = granted[UPSTREAMS.findIndex((upstream) => agentUrl(upstream) === url)]
            return { outcome: 'authorized', entries: [0], ...(countries && { countries }) }
          },
        })
        const slices = listings.map((one, at) => sliceOf(UPSTREAMS[at] as string, [one]))
        const snapshot = buildSnapshot({ slices, judge })
        return asked.every((countries) => {
          const narrowing = createNarrowing(snapshot, countries)
          const inPortions = createNarrowing(snapshot, countries, createMeter())
          for (const entry of snapshot.shown) {
            const [facts, row] = [narrowing.factsOf(entry), narrowing.rowOf(entry)]
            const numbers = [narrowing.numbersOf(entry), inPortions.numbersOf(entry)]
            if (!facts || !row) {
              if (facts !== row || numbers[0] || numbers[1]) return false
              continue
            }
            narrowed += 1
            const { lowestCpm: cpm, cpmCurrency: currency, coverage = Number.NaN } = row
            if (!numbers.every((one) => isDeepStrictEqual(one, { cpm, currency, coverage }))) return false
            const { core, pricing, deployments: words } = rowWords(row)
            const deployments = row.deployments.map(({ key, activationKey }, at) => ({
              key,
              words: words[at],
              secret: keyWords(activationKey),
            }))
            const { core: _, pricing: __, deployments: ___, ...others } = facts
            const own = Object.fromEntries(Object.keys(others).map((name) => [name, row[name as keyof Row]]))
            if (!isDeepStrictEqual({ ...facts }, { ...own, core, pricing, deployments })) return false
          }
          return true
        })
      },
    ),
  )
  t.ok(narrowed > 20, `${narrowed} rows were narrowed`)
  t.end()
})
