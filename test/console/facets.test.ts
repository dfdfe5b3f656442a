/** Facets over random feeds whose offers differ in their countries, against the rows that a reader is shown. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import { counted, FACETS, withoutFacet } from '../../src/console/facets.js'
import { createFind, type FeedQuestion, readFeedQuestion } from '../../src/console/feed-question.js'
import type { Feed } from '../../src/feed/feed.js'
import { drained } from '../../src/process/portions.js'
import { emptyFeed, publish } from '../feed/feed-of.js'
import { type Row, rowsOf, walk } from '../feed/reader.js'
import { buyer, listing, sliceOf } from '../feed/world.js'
import { proven } from '../support/proven.js'

const forever = new AbortController().signal

function questionOf(params: URLSearchParams): FeedQuestion {
  const read = readFeedQuestion(params)
  assert.equal(read.kind, 'question')
  return (read as { question: FeedQuestion }).question
}

function readerOf(feed: Feed) {
  const find = createFind({ feed, searchable: () => undefined })

  async function found(params: URLSearchParams) {
    const seen = await find(questionOf(params), buyer, forever)
    assert.ok(seen)
    return seen
  }

  /** What the page tells of one facet. */
  async function told(facet: (typeof FACETS)[number], params: URLSearchParams) {
    const question = questionOf(params)
    const wider = withoutFacet(question, facet) ?? question
    const others = await find(wider, buyer, forever)
    assert.ok(others)
    const work = counted(others, [facet], wider.selection, undefined)
    return drained(work)[facet] ?? []
  }

  /** The rows that the buyer is shown. */
  const shown = (params: URLSearchParams): Row[] => {
    const { selection, upstreams, valueTypes } = questionOf(params)
    const sells = ({ ext }: Row) => ext.tributary.offers.some(({ upstream }) => upstreams.includes(upstream))
    return walk(feed, selection, buyer)
      .flatMap(rowsOf)
      .filter((row) => upstreams.length === 0 || sells(row))
      .filter(({ value_type }) => valueTypes.length === 0 || valueTypes.some((one) => one === value_type))
  }
  return { found, told, shown }
}

const maybe = <T>(...values: T[]) => fc.option(fc.constantFrom(...values), { nil: undefined })

/** One of two signals, as one of three sellers offers it. */
const anyOffer = (id: 's1' | 's2') =>
  fc.option(
    fc
      .record({
        countries: maybe(['DE'], ['US'], ['DE', 'US']),
        platform: maybe('dv360', 'the-trade-desk'),
        cpm: maybe(0, 1, 3, 30),
        currency: fc.constantFrom('USD', 'EUR'),
      })
      .map(({ countries, platform, cpm, currency }) => {
        const option = { pricing_option_id: 'po', model: 'cpm', cpm, currency } as PricingOption
        return listing(id, {
          ...(countries && { countries }),
          deployments: platform ? [{ type: 'platform', platform, is_live: true }] : [],
          pricing_options: cpm === undefined ? [] : [option],
          signal_type: id === 's1' ? 'marketplace' : 'owned',
          ...(id === 's1' && { value_type: 'binary' }),
        })
      }),
  )

const anySlices = fc
  .array(fc.tuple(anyOffer('s1'), anyOffer('s2')), { minLength: 3, maxLength: 3 })
  .map((all) =>
    all.map((rows, at) =>
      sliceOf(
        `seller${at}`,
        rows.filter((row) => row !== null),
      ),
    ),
  )

const anyParams = fc
  .record({
    country: maybe('DE', 'FR', 'US'),
    destination: maybe('platform:dv360'),
    type: maybe('owned', 'marketplace'),
    value_type: maybe('binary'),
    provider: maybe('provider.example'),
    upstream: maybe('seller0', 'seller1'),
    max_cpm: maybe('1', '5'),
    currency: maybe('EUR'),
  })
  .map((said) => new URLSearchParams(Object.entries(said).filter((one): one is [string, string] => !!one[1])))

/** With one of these chosen, a country counts more than it finds (docs/console.md#the-json-behind-the-page). */
const SOLD = ['destination', 'upstream', 'max_cpm']

test('every value of a facet is counted as often as the choice of it finds a row', async (t) => {
  await proven(
    t,
    75,
    fc.asyncProperty(anySlices, anyParams, async (slices, params) => {
      const feed = emptyFeed()
      publish(feed, slices)
      const { found, told, shown } = readerOf(feed)
      assert.equal((await found(params)).total, shown(params).length, `the rows of ${params}`)
      for (const facet of FACETS) {
        if (facet === 'country' && SOLD.some((name) => params.has(name))) continue
        for (const { value, count } of await told(facet, params)) {
          const chosen = new URLSearchParams(params)
          chosen.set(facet === 'price' ? 'max_cpm' : facet, value)
          assert.equal(count, shown(chosen).length, `${facet} ${value} of ${params}`)
        }
      }
    }),
  )
})
