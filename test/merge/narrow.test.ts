import fc from 'fast-check'
import { test } from 'tap'
import {
  type MergedSignal,
  mergeSignal,
  narrowRow,
  type PublishedRow,
} from '../../src/merge/merged-signal.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { anyListing } from '../feed/arbitrary.js'
import type { Row } from '../feed/reader.js'
import { anyForecast } from '../support/forecasts.js'
import { proven } from '../support/proven.js'
import { IDENTITY, offer, rowText } from './offers.js'

/** The forecast, about the signal of the listing. */
function forecastOf({ signal_ref: ref }: Listing, forecast: unknown): Partial<Listing> {
  if (forecast === undefined) return {}
  const text = JSON.stringify(forecast).replaceAll('"signal_id":"s"', `"signal_id":"${ref?.signal_id}"`)
  return { coverage_forecast: JSON.parse(text) }
}

const anyOffers = fc
  .array(
    fc.tuple(
      fc.constantFrom('alpha', 'beta', 'gamma'),
      anyListing,
      fc.option(anyForecast, { nil: undefined }),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((sold) =>
    sold.map(([upstream, listing, forecast]) =>
      offer(upstream, { ...listing, ...forecastOf(listing, forecast) }),
    ),
  )
const anyCountries = fc.subarray(['DE', 'FR', 'US'], { minLength: 1 })

function merged(offers: Parameters<typeof mergeSignal>[1]): MergedSignal | undefined {
  const signal = mergeSignal(IDENTITY, offers, 'strict')
  return signal.kind === 'signal' ? signal : undefined
}

const parsed = (row: Parameters<typeof rowText>[0]) => JSON.parse(`${rowText(row)}}`) as Row

function narrowed(signal: MergedSignal, offers: Parameters<typeof mergeSignal>[1], countries: string[]) {
  const standing = offers.filter((_, at) => signal.contributes[at])
  return narrowRow(parsed(signal) as unknown as PublishedRow, standing, countries)
}

test('a row that countries narrow says of its offers what the usable ones alone would', (t) => {
  proven(
    t,
    125,
    fc.property(anyOffers, anyCountries, (offers, countries) => {
      const whole = merged(offers)
      fc.pre(whole?.mixed === true)
      const standing = offers.filter((_, at) => whole?.contributes[at])
      const usable = standing.filter(
        ({ listing: { countries: own } }) => !own || own.some((country) => countries.includes(country)),
      )
      const row = narrowed(whole as MergedSignal, offers, countries)
      const alone = merged(usable)
      if (!row || !alone) return row === alone
      const told = ({ coverage_percentage, coverage_forecast, deployments, countries, ext }: Row) =>
        JSON.stringify([coverage_percentage, coverage_forecast, deployments, countries, ext.tributary.offers])
      return row.tail === alone.tail && told(parsed(row)) === told(parsed(alone))
    }),
  )
  t.end()
})

test('where every offer may be used, narrowing changes no byte', (t) => {
  proven(
    t,
    125,
    fc.property(anyOffers, (offers) => {
      const whole = merged(offers)
      fc.pre(whole?.mixed === true)
      const row = narrowed(whole as MergedSignal, offers, ['DE', 'FR', 'US'])
      if (!row || !whole) return row === whole
      return rowText(row) === rowText(whole) && row.unplaced === whole.unplaced
    }),
  )
  t.end()
})
