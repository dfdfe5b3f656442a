/**
 * The kinds of words that the demo market is made of: a theme crosses its subjects with its stances, the common
 * look-back windows and the common places. The values are those of the protocol's enums
 * (schemas core/signal-definition, enums/restricted-attribute, enums/consent-basis).
 */
export type ConsentBasis = 'consent' | 'legitimate_interest' | 'contract'

/** What a signal is about. `about` completes "Adults who researched ...". */
export type Subject = {
  name: string
  about: string
  restricted?: string[]
  policy?: string[]
  art9?: 'explicit_consent' | 'manifestly_made_public'
}

/** How people stand to the subject. `says` is the verb between the two. */
export type Stance = {
  label: string
  says: string
  sources: string[]
  methodology: 'observed' | 'declared' | 'derived' | 'inferred' | 'modeled'
  /** Present on a categorical signal: the values that its buyers may choose from. */
  values?: string[]
  /** Present on a numeric signal. */
  range?: { min: number; max: number }
  /** A person may stand in several values at once, so their shares add up to more than the whole. */
  multiValued?: boolean
}

export type Theme = {
  key: string
  /** Top of the taxonomy path. */
  branch: string
  /** "Adults who", "Households that", "Professionals who". */
  who: string
  /** Where the evidence comes from, as one sentence. */
  evidence: string
  subjects: readonly Subject[]
  stances: readonly Stance[]
}

export type Window = { label: string; says: string; cadence: string }
export type Place = {
  label: string
  /** Completes "in ...". */
  where: string
  countries: string[]
  basis: ConsentBasis
  currency: string
}

export const WINDOWS: readonly Window[] = [
  { label: '7 Days', says: 'the last 7 days', cadence: 'weekly' },
  { label: '30 Days', says: 'the last 30 days', cadence: 'monthly' },
  { label: '60 Days', says: 'the last 60 days', cadence: 'bi_monthly' },
  { label: '90 Days', says: 'the last 90 days', cadence: 'quarterly' },
  { label: '6 Months', says: 'the last six months', cadence: 'bi_annually' },
  { label: '12 Months', says: 'the last twelve months', cadence: 'annually' },
]

function place(where: string, countries: string[], basis: ConsentBasis, currency: string): Place {
  return { label: where.replace(/^the /, ''), where, countries, basis, currency }
}

export const PLACES: readonly Place[] = [
  place('the United States', ['US'], 'legitimate_interest', 'USD'),
  place('Germany', ['DE'], 'consent', 'EUR'),
  place('the United Kingdom', ['GB'], 'consent', 'GBP'),
  place('the US and Canada', ['US', 'CA'], 'legitimate_interest', 'USD'),
  place('France', ['FR'], 'consent', 'EUR'),
  place('the Nordics', ['SE', 'NO', 'DK', 'FI'], 'consent', 'EUR'),
  place('Spain and Portugal', ['ES', 'PT'], 'consent', 'EUR'),
  place('Australia and New Zealand', ['AU', 'NZ'], 'contract', 'AUD'),
  place('Benelux', ['BE', 'NL', 'LU'], 'consent', 'EUR'),
  place('Mexico', ['MX'], 'consent', 'USD'),
  place('Brazil', ['BR'], 'consent', 'USD'),
  place('Japan', ['JP'], 'contract', 'JPY'),
  place('Italy', ['IT'], 'consent', 'EUR'),
  place('Poland and Czechia', ['PL', 'CZ'], 'consent', 'EUR'),
]
