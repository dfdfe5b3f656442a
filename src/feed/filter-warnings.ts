/** What an answer says of its filters: those that nobody here knows, those that are not applied, and by which rates prices compared. */
import type { AdcpWarning } from '../adcp/error.js'
import { type Criteria, priceCurrency } from './canonical.js'
import type { Reader, Selection } from './query.js'
import type { Rates } from './rates.js'

const PRICE_FILTERS = ['max_cpm', 'max_percent'] as const
const MOST_WARNINGS = 20 // of one kind: an answer must not grow with what a caller makes up
const PLAIN_NAME = /^[A-Za-z0-9_]{1,64}$/

const UNKNOWN = 'This agent does not know this filter: the answer is not restricted by it.'
const VENDORS = 'This agent applies no vendor filters: the answer is not restricted by them.'

/** `ext` is a field of the request's schema, but what stands in it is a vendor's: it restricts nothing here either. */
function unknownFilterWarnings({ unknown }: Criteria): AdcpWarning[] {
  return unknown.slice(0, MOST_WARNINGS).map((name) => ({
    code: 'UNKNOWN_FILTER',
    severity: 'warning',
    message: name === 'ext' ? VENDORS : UNKNOWN,
    field: PLAIN_NAME.test(name) ? `filters.${name}` : 'filters', // never echo what could be anything
  }))
}

/** A filter by prices that the reader may not see would tell them: it is named and not applied. */
function priceFilterWarnings({ filters = {} }: Selection, reader: Reader): AdcpWarning[] {
  if (reader.visibility === 'full') return []
  return PRICE_FILTERS.filter((name) => filters[name] !== undefined).map((name) => ({
    code: 'PRICING_UNAVAILABLE',
    severity: 'warning',
    message: 'Prices are shown to authenticated callers only: the answer is not restricted by this filter.',
    field: `filters.${name}`,
  }))
}

/** Says by which rates prices were compared that are in other currencies than the filter. */
function conversionWarnings(
  { filters = {} }: Selection,
  { maxCpm = [] }: Criteria,
  reader: Reader,
  rates: Rates | undefined,
): AdcpWarning[] {
  if (!rates || maxCpm.length < 2 || reader.visibility !== 'full') return []
  return [
    {
      code: 'PRICES_CONVERTED',
      severity: 'warning',
      message: `Prices in other currencies were compared by rates of ${rates.asOf}; what is shown is not converted.`,
      field: 'filters.max_cpm',
      details: { currency: priceCurrency(filters), as_of: rates.asOf },
    },
  ]
}

export function filterWarnings(
  query: Selection,
  criteria: Criteria,
  reader: Reader,
  rates: Rates | undefined,
): AdcpWarning[] {
  return [
    ...unknownFilterWarnings(criteria),
    ...priceFilterWarnings(query, reader),
    ...conversionWarnings(query, criteria, reader, rates),
  ]
}
