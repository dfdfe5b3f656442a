/**
 * The kinds of words the demo market is made of: a theme crosses its subjects with its stances, the common
 * look-back windows and the common places. The values are those of the protocol's enums
 * (schemas core/signal-definition, enums/restricted-attribute, enums/consent-basis).
 */
export type ConsentBasis = 'consent' | 'legitimate_interest' | 'contract'

/** What a signal is about. `about` completes "Adults who researched ...". */
export type Subject = {
  name: string
  about: string
  restricted?: readonly string[]
  policy?: readonly string[]
  art9?: 'explicit_consent' | 'manifestly_made_public'
}

/** How people stand to the subject. `says` is the verb between the two. */
export type Stance = {
  label: string
  says: string
  sources: readonly string[]
  methodology: 'observed' | 'declared' | 'derived' | 'inferred' | 'modeled'
  /** Present on a categorical signal: the values that its buyers may choose from. */
  values?: readonly string[]
  /** Present on a numeric signal. */
  range?: { min: number; max: number }
  /** A person may stand in several values at once, so their shares add up to more than the whole. */
  multiValued?: boolean
}

export type Theme = {
  key: string
  /** Top of the taxonomy path. */
  branch: string
  /** "Adults who", "Households that", "Companies that". */
  who: string
  /** Where the evidence comes from, as one sentence. */
  evidence: string
  subjects: readonly Subject[]
  stances: readonly Stance[]
}

export type Window = { label: string; says: string; cadence: string }
export type Place = { label: string; countries: readonly string[]; basis: ConsentBasis; currency: string }

export const WINDOWS: readonly Window[] = [
  { label: '7 Days', says: 'within the last 7 days', cadence: 'weekly' },
  { label: '30 Days', says: 'within the last 30 days', cadence: 'monthly' },
  { label: '60 Days', says: 'within the last 60 days', cadence: 'bi_monthly' },
  { label: '90 Days', says: 'within the last 90 days', cadence: 'quarterly' },
  { label: '6 Months', says: 'within the last six months', cadence: 'bi_annually' },
  { label: '12 Months', says: 'within the last twelve months', cadence: 'annually' },
]

export const PLACES: readonly Place[] = [
  { label: 'United States', countries: ['US'], basis: 'legitimate_interest', currency: 'USD' },
  { label: 'Germany', countries: ['DE'], basis: 'consent', currency: 'EUR' },
  { label: 'United Kingdom', countries: ['GB'], basis: 'consent', currency: 'GBP' },
  { label: 'US and Canada', countries: ['US', 'CA'], basis: 'legitimate_interest', currency: 'USD' },
  { label: 'France', countries: ['FR'], basis: 'consent', currency: 'EUR' },
  { label: 'Nordics', countries: ['SE', 'NO', 'DK', 'FI'], basis: 'consent', currency: 'EUR' },
  { label: 'Spain and Portugal', countries: ['ES', 'PT'], basis: 'consent', currency: 'EUR' },
  { label: 'Australia', countries: ['AU', 'NZ'], basis: 'contract', currency: 'AUD' },
  { label: 'Benelux', countries: ['BE', 'NL', 'LU'], basis: 'consent', currency: 'EUR' },
  { label: 'Mexico', countries: ['MX'], basis: 'consent', currency: 'USD' },
  { label: 'Brazil', countries: ['BR'], basis: 'consent', currency: 'USD' },
  { label: 'Japan', countries: ['JP'], basis: 'contract', currency: 'JPY' },
  { label: 'Italy', countries: ['IT'], basis: 'consent', currency: 'EUR' },
  { label: 'Poland and Czechia', countries: ['PL', 'CZ'], basis: 'consent', currency: 'EUR' },
]
