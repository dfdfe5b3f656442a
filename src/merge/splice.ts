/**
 * A signal that one listing offers, put together from the listing's own text: most signals are sold by one upstream, and
 * parsing a listing to write it again is most of what merging costs (docs/performance.md). Millions of signals share few distinct
 * destinations, prices and closed words, so each of these parts is parsed, checked and written once. Byte for byte what
 * merge/merged-signal.ts makes of the parsed listing; what it cannot do is left to that.
 */
import {
  type Deployment,
  legacyFromRef,
  type PricingOption,
  type SignalRef,
  type SignalRow,
  type SignalType,
  type ValueType,
} from '../adcp/signal.js'
import { type Policy, publishable } from '../authz/rules/verdict.js'
import { remembered } from '../process/remembered.js'
import { MEMBER, type Members } from '../upstreams/rows/written.js'
import {
  countriesOf,
  type Definition,
  FIRST_WINS,
  type Field,
  mergeDefinition,
  stated,
} from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { type Identity, identityKey, offerHandle, signalHandle } from './identity.js'
import { type MergedSignal, publishedRef } from './merged-signal.js'
import { listsNone, type Offer, type Seller, sellerOf } from './offer.js'
import { cpmCurrency, endOf, HANDLE, lowest, mergeCoverage, mergePricing, tailOf } from './row.js'

type Listing = SignalRow
const only = (members: Partial<Listing>) => ({ listing: members as Listing })
const AUTHORIZED = { upstream: '', verdict: { outcome: 'authorized', entries: [] } } as const

/** The value of a descriptive field as it is published; empty when it does not conform. */
const shownField = Object.fromEntries(
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
const finePrint = remembered((text) => {
  const offers = [{ ...only(JSON.parse(text)), ...AUTHORIZED }]
  const { fields, restrictions } = mergeDefinition(offers, offers, undefined)
  return { text: JSON.stringify(fields).slice(1, -1), restrictions }
})

/** The countries of a listing whose provider and verdict name none. */
const countryList = remembered((text) => {
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
const placed = remembered((text): Placed => {
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
const quotedName = remembered((text) => JSON.stringify(text))

/** The prices of a signal's only offer: the end of its row in the pieces around its offer's handle, and the facts. */
const priced = remembered((text) => {
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

type Told = { field: string; place: number; name: string; text(json: string): string }

/** How a member of a listing is written into a row: `,"name":`, then `text` of its value; not at all where that is empty. */
function told(field: keyof typeof MEMBER, text: (json: string) => string): Told {
  return { field, place: MEMBER[field], name: `,"${field}":`, text }
}

const TEXTS = ['name', 'description', 'signal_type', 'data_provider'] // published whatever they say
const DESCRIBING = FIRST_WINS.map((field) => {
  return told(field, TEXTS.includes(field) ? (json) => json : shownField[field])
})
const PRINTED = (
  [
    'consent_basis',
    'art9_basis',
    'demographic_predicate',
    'restricted_attributes',
    'policy_categories',
  ] as const
).map((field) => told(field, (json) => json))

/**
 * The members that a listing gives, each after a comma. Joined at once, because a text that was put together piece by
 * piece is walked through again by each of those who copy it.
 */
function written(fields: readonly Told[], members: Members): string {
  const all: string[] = []
  for (const { place, name, text } of fields) {
    const json = members[place]
    const shown = json === undefined ? '' : text(json)
    if (shown !== '') all.push(name, shown)
  }
  return all.join('')
}

/** The content of a string's JSON without escapes. */
const content = (json: string | undefined) => json?.slice(1, -1)

/** Members as they follow others: after a comma, unless there are none. */
const listed = (members: string) => (members === '' ? '' : `,${members}`)

type Described = { text: string; restrictions: readonly string[]; valueType: string | undefined }

/** The description of a signal whose provider publishes no definition. */
function described(members: Members): Described {
  const given = written(PRINTED, members)
  const fine = given === '' ? { text: '', restrictions: [] } : finePrint(`{${given.slice(1)}}`)
  const text = `${written(DESCRIBING, members)}${listed(fine.text)}`
  return { text, restrictions: fine.restrictions, valueType: members[MEMBER.value_type] }
}

/**
 * The description of a signal with a published definition: the provider's fields, then those of the listing. Undefined
 * where the two may differ, because the row must name such conflicts, and where the listing may add a restriction.
 */
function defined(members: Members, definition: Definition): Described | undefined {
  if (PRINTED.some(({ place }) => members[place] !== undefined)) return undefined
  const { fields, restrictions } = mergeDefinition([], [], definition)
  const json = Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [field, JSON.stringify(value)]),
  )
  let all = ''
  for (const { field, place, name, text } of DESCRIBING) {
    const [own = '', given = ''] = [json[field], members[place]]
    const stated = given === '' ? '' : text(given)
    if (own !== '' && stated !== '' && own !== stated) return undefined
    if (own !== '' || stated !== '') all += name + (own || stated)
  }
  for (const { field, name } of PRINTED) if (json[field] !== undefined) all += name + json[field]
  return { text: all, restrictions, valueType: json.value_type ?? members[MEMBER.value_type] }
}

function coverageOf(members: Members, ref: SignalRef): { text: string; percentage: number | undefined } {
  const [share, forecast] = [members[MEMBER.coverage_percentage], members[MEMBER.coverage_forecast]]
  const own = share === undefined ? undefined : Number(share)
  if (forecast === undefined) {
    return { text: own === undefined ? '' : `,"coverage_percentage":${own}`, percentage: own }
  }
  const listing = { coverage_forecast: JSON.parse(forecast), coverage_percentage: own } as Offer['listing']
  const merged = mergeCoverage([{ listing }], ref)
  const shown = { coverage_percentage: merged.percentage, coverage_forecast: merged.forecast }
  return { text: listed(JSON.stringify(shown).slice(1, -1)), percentage: merged.percentage }
}

const NO_COUNTRIES = { countries: undefined, text: '' }

function boundsOf(members: Members, { verdict, upstream }: Selling, definition: Definition | undefined) {
  const own = members[MEMBER.countries]
  const granted = verdict.outcome === 'authorized' ? verdict.countries : undefined
  if (!granted && !definition?.countries) return own === undefined ? NO_COUNTRIES : countryList(own)
  const listing = (own === undefined ? {} : { countries: JSON.parse(own) }) as Offer['listing']
  const countries = countriesOf({ listing, verdict, upstream }, definition)
  return { countries, text: countries ? JSON.stringify(countries) : '' }
}

function references(identity: Identity, ref: SignalRef): string {
  if (identity.kind !== 'provider') {
    return `"signal_ref":${JSON.stringify(ref)},"signal_id":${JSON.stringify(legacyFromRef(ref))}`
  }
  const { domain, id } = identity
  return `"signal_ref":{"scope":"data_provider","data_provider_domain":"${domain}","signal_id":"${id}"},"signal_id":{"source":"catalog","data_provider_domain":"${domain}","id":"${id}"}`
}

/** What only some sellers say, in published order. */
const CLAIMS = [
  'reason',
  'mode',
  'claimed_source',
  'destinations_not_listed',
] as const satisfies readonly (keyof Seller)[]

/** The seller as JSON, without the closing brace: its first members are the same in all rows of an upstream. */
function sellerText(seller: Seller): string {
  const { upstream, agent_url, handle, verdict } = seller
  let more = ''
  for (const claim of CLAIMS) {
    const said = seller[claim]
    if (said !== undefined) more += `,"${claim}":${JSON.stringify(said)}`
  }
  return `{"upstream":${quotedName(upstream)},"agent_url":${quotedName(agent_url)},"handle":"${handle}","verdict":"${verdict}"${more}`
}

const ALONE = [true]
const NO_PRICES = {
  prices: '',
  pieces: [''],
  lowestCpm: Number.NaN,
  lowestPercent: Number.NaN,
  cpmCurrency: 0,
}

/** An offer whose listing has not been parsed, by its members. `ref`: the reference that it gives. */
type Selling = Omit<Offer, 'listing'> & { readonly members: Members; readonly ref: SignalRef }

/**
 * The signal whose only offer this is. `definition` is the provider's, if it publishes one. Undefined when the listing has
 * to be parsed for it: it is not published, its seller is denied, or it may differ from the definition.
 */
export function spliceSignal(
  identity: Identity,
  selling: Selling,
  policy: Policy,
  definition?: Definition,
): MergedSignal | undefined {
  const { verdict, agentUrl, members, ref: claimed } = selling
  if (verdict.outcome === 'unauthorized' || !publishable(verdict, policy)) return undefined
  const said = definition ? defined(members, definition) : described(members)
  if (!said) return undefined
  const bounds = boundsOf(members, selling, definition)
  const { countries } = bounds
  if (countries?.length === 0) return undefined
  const handle = signalHandle(identityKey(identity))
  const ref = publishedRef(identity, handle)
  const offer = offerHandle(handle, agentUrl, content(members[MEMBER.signal_agent_segment_id]) as string)
  const coverage = coverageOf(members, ref)
  const { given, deployments, shown, states, keys } = placed(members[MEMBER.deployments] as string)
  const sold = { signal_ref: claimed, deployments: given }
  const seller = sellerText(sellerOf(selling, sold, offer))
  const prices = members[MEMBER.pricing_options]
  const sale = prices === undefined ? NO_PRICES : priced(prices)
  const { lowestCpm, lowestPercent, cpmCurrency } = sale
  const opening = `{"signal_agent_segment_id":"${handle}",${references(identity, ref)}${said.text}${coverage.text}${bounds.text && `,"countries":${bounds.text}`}`
  const notes = { restrictions: said.restrictions, conflicts: [] }
  return {
    kind: 'signal',
    handle,
    head: `${opening},"deployments":${shown}${endOf([`${seller},"deployments":${keys}`], notes)}`,
    opening: opening.length,
    tail: sale.pieces.join(offer),
    prices: sale.prices,
    core: `${opening}${endOf([seller], notes)}`,
    states,
    deployments,
    countries,
    mixed: false,
    anywhere: listsNone(sold),
    coverage: coverage.percentage,
    lowestCpm,
    lowestPercent,
    cpmCurrency,
    contributes: ALONE,
    bounds: [countries],
    type: content(members[MEMBER.signal_type]) as SignalType,
    valueType: content(said.valueType) as ValueType | undefined,
    provider: content(members[MEMBER.data_provider]),
  }
}
