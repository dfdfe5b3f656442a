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
import { type Memory, remembered, rememberedBytes } from '../process/remembered.js'
import { hasMember, MEMBER, type Members, memberText } from '../upstreams/rows/written.js'
import {
  countriesOf,
  type Definition,
  FIRST_WINS,
  type Field,
  mergeDefinition,
  stated,
} from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { type Identity, offerHandle } from './identity.js'
import { type MergedSignal, publishedRef } from './merged-signal.js'
import { listsNone, type Offer, type Seller, sellerOf } from './offer.js'
import { cpmCurrency, endOf, HANDLE, lowest, mergeCoverage, mergePricing, tailOf } from './row.js'

type Listing = SignalRow
const only = (members: Partial<Listing>) => ({ listing: members as Listing })
const AUTHORIZED = { upstream: '', verdict: { outcome: 'authorized', entries: [] } } as const

/** The value of a descriptive field as it is published; empty when it does not conform. */
const shownField = (field: Field) =>
  rememberedBytes((text) => {
    const value = stated({ [field]: JSON.parse(text) }, field)
    return value === undefined ? '' : JSON.stringify(value)
  })

/** A member of a listing by what is remembered of its value. */
const of = <T>(known: (memory: Memory, start: number, end: number) => T, members: Members, member: number) =>
  known(members.memory, members.starts[member] as number, members.ends[member] as number)

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
const countryList = rememberedBytes((text) => {
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
const placed = rememberedBytes((text): Placed => {
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
const priced = rememberedBytes((text) => {
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

/** The words of members that few agents choose freely, without their quotes. */
const word = rememberedBytes((text) => text.slice(1, -1))
const wordOf = (members: Members, member: number) =>
  hasMember(members, member) ? of(word, members, member) : undefined

type Told = {
  field: string
  place: number
  name: string
  text(memory: Memory, start: number, end: number): string
}

/** How a member of a listing is written into a row: `,"name":`, then `text` of its value; not at all where that is empty. */
function told(field: keyof typeof MEMBER, text: Told['text']): Told {
  return { field, place: MEMBER[field], name: `,"${field}":`, text }
}

const asWritten: Told['text'] = ({ bytes }, start, end) => bytes.toString('utf8', start, end)
const WORDS = ['signal_type', 'data_provider'] // published whatever they say, as the next
const TEXTS = ['name', 'description']
const DESCRIBING = FIRST_WINS.map((field) => {
  if (TEXTS.includes(field)) return told(field, asWritten)
  return told(field, WORDS.includes(field) ? rememberedBytes((json) => json) : shownField(field))
})
const PRINTED = (
  [
    'consent_basis',
    'art9_basis',
    'demographic_predicate',
    'restricted_attributes',
    'policy_categories',
  ] as const
).map((field) => told(field, asWritten))

/** The members that a listing gives, each after a comma. */
function written(fields: readonly Told[], members: Members): string {
  let all = ''
  for (const { place, name, text } of fields) {
    if (!hasMember(members, place)) continue
    const shown = of(text, members, place)
    if (shown !== '') all += name + shown
  }
  return all
}

/** Members as they follow others: after a comma, unless there are none. */
const listed = (members: string) => (members === '' ? '' : `,${members}`)

type Described = { text: string; restrictions: readonly string[]; valueType: string | undefined }

/** The description of a signal whose provider publishes no definition. */
function described(members: Members): Described {
  const given = written(PRINTED, members)
  const fine = given === '' ? { text: '', restrictions: [] } : finePrint(`{${given.slice(1)}}`)
  const text = `${written(DESCRIBING, members)}${listed(fine.text)}`
  return { text, restrictions: fine.restrictions, valueType: wordOf(members, MEMBER.value_type) }
}

/**
 * The description of a signal with a published definition: the provider's fields, then those of the listing. Undefined
 * where the two may differ, because the row must name such conflicts, and where the listing may add a restriction.
 */
function defined(members: Members, definition: Definition): Described | undefined {
  if (PRINTED.some(({ place }) => hasMember(members, place))) return undefined
  const { fields, restrictions } = mergeDefinition([], [], definition)
  const json = Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [field, JSON.stringify(value)]),
  )
  let all = ''
  for (const { field, place, name, text } of DESCRIBING) {
    const own = json[field] ?? ''
    const stated = hasMember(members, place) ? of(text, members, place) : ''
    if (own !== '' && stated !== '' && own !== stated) return undefined
    if (own !== '' || stated !== '') all += name + (own || stated)
  }
  for (const { field, name } of PRINTED) if (json[field] !== undefined) all += name + json[field]
  const valueType = json.value_type?.slice(1, -1) ?? wordOf(members, MEMBER.value_type)
  return { text: all, restrictions, valueType }
}

type Coverage = { readonly text: string; readonly percentage: number | undefined }

const NO_SHARE: Coverage = { text: '', percentage: undefined }
const share = rememberedBytes((text): Coverage => {
  const percentage = Number(text)
  return { text: `,"coverage_percentage":${percentage}`, percentage }
})

function coverageOf(members: Members, ref: SignalRef): Coverage {
  const { coverage_percentage, coverage_forecast } = MEMBER
  const own = hasMember(members, coverage_percentage) ? of(share, members, coverage_percentage) : NO_SHARE
  if (!hasMember(members, coverage_forecast)) return own
  const given = JSON.parse(memberText(members, coverage_forecast))
  const listing = { coverage_forecast: given, coverage_percentage: own.percentage } as Offer['listing']
  const merged = mergeCoverage([{ listing }], ref)
  const shown = { coverage_percentage: merged.percentage, coverage_forecast: merged.forecast }
  return { text: listed(JSON.stringify(shown).slice(1, -1)), percentage: merged.percentage }
}

const NO_COUNTRIES = { countries: undefined, text: '' }

function boundsOf(members: Members, { verdict, upstream }: Selling, definition: Definition | undefined) {
  const isBound = hasMember(members, MEMBER.countries)
  const granted = verdict.outcome === 'authorized' ? verdict.countries : undefined
  if (!granted && !definition?.countries) {
    return isBound ? of(countryList, members, MEMBER.countries) : NO_COUNTRIES
  }
  const own = isBound ? { countries: JSON.parse(memberText(members, MEMBER.countries)) } : {}
  const countries = countriesOf({ listing: own as Offer['listing'], verdict, upstream }, definition)
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

/** An offer whose listing has not been parsed, by its members. `ref`: the reference that it gives; `handle`: its signal's. */
type Selling = Omit<Offer, 'listing'> & {
  readonly members: Members
  readonly ref: SignalRef
  readonly handle: string
}

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
  const { verdict, agentUrl, members, ref: claimed, handle } = selling
  if (verdict.outcome === 'unauthorized' || !publishable(verdict, policy)) return undefined
  const said = definition ? defined(members, definition) : described(members)
  if (!said) return undefined
  const bounds = boundsOf(members, selling, definition)
  const { countries } = bounds
  if (countries?.length === 0) return undefined
  const ref = publishedRef(identity, handle)
  const segment = memberText(members, MEMBER.signal_agent_segment_id).slice(1, -1)
  const offer = offerHandle(handle, agentUrl, segment)
  const coverage = coverageOf(members, ref)
  const { given, deployments, shown, states, keys } = of(placed, members, MEMBER.deployments)
  const sold = { signal_ref: claimed, deployments: given }
  const seller = sellerText(sellerOf(selling, sold, offer))
  const isPriced = hasMember(members, MEMBER.pricing_options)
  const sale = isPriced ? of(priced, members, MEMBER.pricing_options) : NO_PRICES
  const { lowestCpm, lowestPercent, cpmCurrency } = sale
  const opening = `{"signal_agent_segment_id":"${handle}",${references(identity, ref)}${said.text}${coverage.text}${bounds.text && `,"countries":${bounds.text}`}`
  const notes = { restrictions: said.restrictions, conflicts: [] }
  return {
    kind: 'signal',
    handle,
    opening,
    placed: `,"deployments":${shown}${endOf([`${seller},"deployments":${keys}`], notes)}`,
    unplaced: endOf([seller], notes),
    tail: sale.pieces.join(offer),
    prices: sale.prices,
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
    type: wordOf(members, MEMBER.signal_type) as SignalType,
    valueType: said.valueType as ValueType | undefined,
    provider: wordOf(members, MEMBER.data_provider),
  }
}
