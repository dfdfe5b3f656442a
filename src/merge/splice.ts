/**
 * A signal that one listing offers, put together from the listing's own text: most signals are sold by one upstream, and
 * parsing a listing to write it again costs twice as much (docs/decisions.md#merging). Millions of signals share few distinct
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
import { type Estimated, mergeCoverage } from './coverage.js'
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
import { listsNone, type Offer, type OfferedBy, type Seller, sellerOf } from './offer.js'
import { afterOffers, BEFORE_OFFERS, cpmCurrency, HANDLE, lowest, mergePricing, tailOf } from './row.js'

const only = (members: Partial<SignalRow>) => ({ listing: members as SignalRow })
const AUTHORIZED = { upstream: '', verdict: { outcome: 'authorized', entries: [] } } as const

/** One piece of memory: what a template gives is a tree of its parts, which is walked through whenever it is written. */
const flat = (...parts: string[]) => parts.join('')

/** A field as a member of a row, after a comma. */
const member = (field: string, json: string) => flat(',"', field, '":', json)

/** A descriptive field as a member of the row, by the JSON of its value; empty when it does not conform. */
const shownField = (field: Field) => (text: string) => {
  const value = stated({ [field]: JSON.parse(text) }, field)
  return value === undefined ? '' : member(field, JSON.stringify(value))
}

/** A member of a listing by what is remembered of its value. */
const of = <T>(known: (memory: Memory, start: number, end: number) => T, members: Members, place: number) =>
  known(members.memory, members.starts[place] as number, members.ends[place] as number)

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
  return { countries, text: member('countries', JSON.stringify(countries)) }
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
    shown: member('deployments', `[${targets.join()}]`),
    states: targets.map((target) => `0 ${target}`),
    keys: member('deployments', JSON.stringify(keysOf[0])),
  }
})

/** What stands in a row before the handle of its only offer: the same in all rows of an upstream. */
const beforeHandle = remembered((upstream) =>
  remembered((agentUrl) => {
    const [name, url] = [JSON.stringify(upstream), JSON.stringify(agentUrl)]
    return flat(BEFORE_OFFERS, '{"upstream":', name, ',"agent_url":', url, ',"handle":"')
  }),
)

const WRITTEN_HANDLE = JSON.stringify(HANDLE).slice(1, -1)

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

/** How a member of a listing is written into a row: `text` of its value, after a comma; empty when it is not shown. */
type Told = {
  field: string
  place: number
  text(memory: Memory, start: number, end: number): string
}

const told = (field: keyof typeof MEMBER, text: Told['text']): Told => ({ field, place: MEMBER[field], text })

/** As it stands in the listing, where its reference is before it, and so a comma. */
function asWritten(field: keyof typeof MEMBER): Told {
  const before = member(field, '').length
  return told(field, ({ bytes }, start, end) => bytes.toString('utf8', start - before, end))
}

/** A word that few agents choose freely: as a member of a row, and itself, without its quotes. */
type Said = { readonly shown: string; readonly word: string | undefined }
const NOT_SAID: Said = { shown: '', word: undefined }

/** A member by whose word signals are filtered. */
function worded(field: Field & keyof typeof MEMBER, shown: (json: string) => string) {
  const place = MEMBER[field]
  const said = rememberedBytes((json): Said => ({ shown: shown(json), word: json.slice(1, -1) }))
  return {
    ...told(field, (memory, start, end) => said(memory, start, end).shown),
    of: (members: Members) => (hasMember(members, place) ? of(said, members, place) : NOT_SAID),
  }
}

const NAMES = [asWritten('name'), asWritten('description')] as const
const [NAME, DESCRIPTION] = NAMES
const TYPE = worded('signal_type', (json) => member('signal_type', json)) // shown whatever it says, as the next
const PROVIDER = worded('data_provider', (json) => member('data_provider', json))
const VALUE_TYPE = worded('value_type', shownField('value_type'))
/** The other descriptive members, in the order of a row (definition.ts), which those before begin. */
const OTHERS = FIRST_WINS.slice([...NAMES, TYPE, PROVIDER, VALUE_TYPE].length).map((field) =>
  told(field, rememberedBytes(shownField(field))),
)
const DESCRIBING = [TYPE, PROVIDER, VALUE_TYPE, ...OTHERS]
const PRINTED = (
  [
    'consent_basis',
    'art9_basis',
    'demographic_predicate',
    'restricted_attributes',
    'policy_categories',
  ] as const
).map(asWritten)

/** The members that a listing gives, each after a comma. */
function written(fields: readonly Told[], members: Members): string {
  let all = ''
  for (const { place, text } of fields) if (hasMember(members, place)) all += of(text, members, place)
  return all
}

const BETWEEN_NAMES = member(DESCRIPTION.field, '').length

/** The first members of a description: one text where they stand side by side in the listing, as nearly always. */
function namesOf(members: Members): string {
  const { memory, starts, ends } = members
  const [from, to] = [starts[NAME.place] as number, ends[DESCRIPTION.place] as number]
  const isPair = from > 0 && starts[DESCRIPTION.place] === (ends[NAME.place] as number) + BETWEEN_NAMES
  return isPair ? NAME.text(memory, from, to) : written(NAMES, members)
}

/** Members as they follow others: after a comma, unless there are none. */
const listed = (members: string) => (members === '' ? '' : `,${members}`)

/** `names`: the first members of a description, which every reader gets. */
type Described = Record<'names' | 'text', string> &
  Record<'type' | 'provider' | 'valueType', string | undefined> & { restrictions: readonly string[] }

/** The description of a signal whose provider publishes no definition. */
function described(members: Members): Described {
  const given = written(PRINTED, members)
  const fine = given === '' ? { text: '', restrictions: [] } : finePrint(`{${given.slice(1)}}`)
  const type = TYPE.of(members)
  const provider = PROVIDER.of(members)
  const valueType = VALUE_TYPE.of(members)
  const words = `${type.shown}${provider.shown}${valueType.shown}`
  return {
    names: namesOf(members),
    text: `${words}${written(OTHERS, members)}${listed(fine.text)}`,
    restrictions: fine.restrictions,
    type: type.word,
    provider: provider.word,
    valueType: valueType.word,
  }
}

/** The descriptive fields of definitions, which state few distinct values. */
const definedFields = new Map(
  DESCRIBING.map(({ field }) => [field, remembered(shownField(field as Field))] as const),
)

/** Of a definition's legal bases and restrictions, an object: the members that are published, and the other restrictions. */
const definedPrint = remembered((text) => {
  const { fields, restrictions } = mergeDefinition([], [], JSON.parse(text) as Definition)
  return { text: listed(JSON.stringify(fields).slice(1, -1)), restrictions }
})

/** What a definition says of a field, as a member of the row; empty when it says nothing that may be published. */
function definedField(definition: Definition, field: string): string {
  const value = definition[field as keyof Definition]
  if (value === undefined) return ''
  const json = JSON.stringify(value)
  return definedFields.get(field)?.(json) ?? member(field, json)
}

/** The members that a definition or the listing gives; undefined where the two may differ. */
function agreed(fields: readonly Told[], members: Members, definition: Definition) {
  let all = ''
  for (const { field, place, text } of fields) {
    const own = definedField(definition, field)
    const stated = hasMember(members, place) ? of(text, members, place) : ''
    if (own !== '' && stated !== '' && own !== stated) return undefined
    all += own || stated
  }
  return all
}

/**
 * The description of a signal with a published definition: the provider's fields, then those of the listing. Undefined
 * where the two may differ, because the row must name such conflicts, and where the listing may add a restriction.
 */
function defined(members: Members, definition: Definition): Described | undefined {
  if (PRINTED.some(({ place }) => hasMember(members, place))) return undefined
  const names = agreed(NAMES, members, definition)
  if (names === undefined) return undefined
  const fields = agreed(DESCRIBING, members, definition)
  if (fields === undefined) return undefined
  const print: Record<string, unknown> = {}
  for (const { field } of PRINTED) print[field] = definition[field as keyof Definition]
  const { text, restrictions } = definedPrint(JSON.stringify(print))
  const own = definedField(definition, 'value_type') === '' ? undefined : definition.value_type
  const valueType = own ?? VALUE_TYPE.of(members).word
  const [{ word: type }, { word: provider }] = [TYPE.of(members), PROVIDER.of(members)]
  return { names, text: fields + text, restrictions, type, provider, valueType }
}

type Coverage = { readonly text: string; readonly percentage: number | undefined }

const NO_SHARE: Coverage = { text: '', percentage: undefined }
const share = rememberedBytes((text): Coverage => {
  const percentage = Number(text)
  return { text: member('coverage_percentage', `${percentage}`), percentage }
})

/** `claimed`: the reference that the listing gives. */
function coverageOf(members: Members, ref: SignalRef, claimed: SignalRef): Coverage {
  const { coverage_percentage, coverage_forecast, signal_id } = MEMBER
  const own = hasMember(members, coverage_percentage) ? of(share, members, coverage_percentage) : NO_SHARE
  if (!hasMember(members, coverage_forecast)) return own
  const listing: Estimated['listing'] = {
    signal_ref: claimed,
    ...(hasMember(members, signal_id) && { signal_id: JSON.parse(memberText(members, signal_id)) }),
    coverage_forecast: JSON.parse(memberText(members, coverage_forecast)),
    ...(own.percentage !== undefined && { coverage_percentage: own.percentage }),
  }
  const { percentage, forecast } = mergeCoverage([{ listing }], ref)
  const shown = { coverage_percentage: percentage, coverage_forecast: forecast }
  return { text: listed(JSON.stringify(shown).slice(1, -1)), percentage }
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
  return { countries, text: countries ? member('countries', JSON.stringify(countries)) : '' }
}

/** What stands around the ids of a provider's signal in the references to it. */
const aroundIds = remembered((domain) => ({
  before: flat('"signal_ref":{"scope":"data_provider","data_provider_domain":"', domain, '","signal_id":"'),
  between: flat('"},"signal_id":{"source":"catalog","data_provider_domain":"', domain, '","id":"'),
}))

function references(identity: Identity, ref: SignalRef): string {
  if (identity.kind !== 'provider') {
    return `"signal_ref":${JSON.stringify(ref)},"signal_id":${JSON.stringify(legacyFromRef(ref))}`
  }
  const { before, between } = aroundIds(identity.domain)
  return `${before}${identity.id}${between}${identity.id}"}`
}

/** What only some sellers say, in published order. */
const CLAIMS = [
  'reason',
  'mode',
  'claimed_source',
  'destinations_not_listed',
] as const satisfies readonly (keyof Seller)[]

/** The only seller of a row and what stands before it, without the closing brace. */
function sellerText(seller: Seller): string {
  const { upstream, agent_url, handle, verdict } = seller
  let text = `${beforeHandle(upstream)(agent_url)}${handle}","verdict":"${verdict}"`
  for (const claim of CLAIMS) {
    const said = seller[claim]
    if (said !== undefined) text += `,"${claim}":${JSON.stringify(said)}`
  }
  return text
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
type Selling = OfferedBy & {
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
  const coverage = coverageOf(members, ref, claimed)
  const { given, deployments, shown, states, keys } = of(placed, members, MEMBER.deployments)
  const sold = { signal_ref: claimed, deployments: given }
  const seller = sellerText(sellerOf(selling, sold, offer))
  const isPriced = hasMember(members, MEMBER.pricing_options)
  const sale = isPriced ? of(priced, members, MEMBER.pricing_options) : NO_PRICES
  const { lowestCpm, lowestPercent, cpmCurrency } = sale
  const names = `{"signal_agent_segment_id":"${handle}",${references(identity, ref)}${said.names}`
  const after = afterOffers({ restrictions: said.restrictions, conflicts: [] })
  return {
    kind: 'signal',
    handle,
    opening: `${names}${said.text}${coverage.text}${bounds.text}`,
    fields: names.length,
    placed: `${shown}${seller}${keys}${after}`,
    unplaced: `${seller}${after}`,
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
    type: said.type as SignalType,
    valueType: said.valueType as ValueType | undefined,
    provider: said.provider,
  }
}
