/**
 * Parts of listings that occur again and again, as they are published. Millions of signals share few distinct destinations,
 * prices and closed words, so each is parsed, checked and written once.
 */
import type { Deployment, PricingOption, SignalRow } from '../adcp/signal.js'
import { remembered } from '../upstreams/rows/remembered.js'
import { countriesOf, FIRST_WINS, type Field, mergeDefinition, stated } from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { cpmCurrency, lowest, mergePricing } from './pricing.js'
import { HANDLE, tailOf } from './row.js'

type Listing = SignalRow
const only = (members: Partial<Listing>) => ({ listing: members as Listing })
const AUTHORIZED = { upstream: '', verdict: { outcome: 'authorized', entries: [] } } as const

/** The value of a descriptive field as it is published; empty when it does not conform. */
export const shownField = Object.fromEntries(
  FIRST_WINS.map((field) => [
    field,
    remembered((text) => {
      const value = stated({ [field]: JSON.parse(text) }, field)
      return value === undefined ? '' : JSON.stringify(value)
    }),
  ]),
) as Readonly<Record<Field, (text: string) => string>>

/**
 * Of an object of legal bases and restrictions: the members that are published, without braces, and the restrictions
 * that the response schema does not know.
 */
export const finePrint = remembered((text) => {
  const offers = [{ ...only(JSON.parse(text)), ...AUTHORIZED }]
  const { fields, restrictions } = mergeDefinition(offers, offers, undefined)
  return { text: JSON.stringify(fields).slice(1, -1), restrictions }
})

/** The countries of a listing whose provider and verdict name none. */
export const countryList = remembered((text) => {
  const countries = countriesOf({ ...only({ countries: JSON.parse(text) }), ...AUTHORIZED }, undefined)
  return { countries, text: JSON.stringify(countries) }
})

type Placed = {
  given: Deployment[]
  deployments: readonly MergedDeployment[]
  /** The list as a row shows it, what it says of each, and the keys that an offer names: JSON. */
  shown: string
  states: readonly string[]
  keys: string
}

/** The deployments of a signal's only offer. */
export const placed = remembered((text): Placed => {
  const given = JSON.parse(text) as Deployment[]
  const { deployments, keysOf } = mergeDeployments([only({ deployments: given })])
  const targets = deployments.map(({ deployment }) => JSON.stringify(deployment))
  return {
    given,
    deployments,
    shown: `[${targets.join()}]`,
    states: targets.map((target) => `0 ${target}`),
    keys: JSON.stringify(keysOf[0]),
  }
})

const WRITTEN_HANDLE = JSON.stringify(HANDLE).slice(1, -1)

/** A text as JSON: of names that stand in many rows. */
export const quotedName = remembered((text) => JSON.stringify(text))

/** The prices of a signal's only offer: the end of its row in the pieces around its offer's handle, and the facts. */
export const priced = remembered((text) => {
  const listing = only({ pricing_options: JSON.parse(text) as PricingOption[] })
  const options = mergePricing([listing], [HANDLE])
  const prices = tailOf(options)
  return {
    prices,
    pieces: prices.split(WRITTEN_HANDLE),
    lowestCpm: lowest(options, 'cpm'),
    lowestPercent: lowest(options, 'percent_of_media'),
    cpmCurrency: cpmCurrency(options),
  }
})
