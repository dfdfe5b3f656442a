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
  type SignalType,
  type ValueType,
} from '../adcp/signal.js'
import { type Policy, publishable } from '../authz/rules/verdict.js'
import { remembered, rememberedBytes } from '../process/remembered.js'
import { hasMember, MEMBER, type Members, memberText } from '../upstreams/rows/written.js'
import { type Estimated, mergeCoverage } from './coverage.js'
import { countriesOf, type Definition } from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { type Identity, offerHandle } from './identity.js'
import { type MergedSignal, publishedRef } from './merged-signal.js'
import { listsNone, type Offer, type OfferedBy, type Seller, sellerOf } from './offer.js'
import { afterOffers, BEFORE_OFFERS, cpmCurrency, HANDLE, lowest, mergePricing, tailOf } from './row.js'
import { afterComma, flatText, offerOnlyOf, recalled, writtenMember } from './row-pieces.js'
import { defined, described } from './spliced-description.js'

/** The countries of a listing whose provider and verdict name none. */
const countryList = rememberedBytes((text) => {
  const countries = countriesOf(offerOnlyOf({ countries: JSON.parse(text) }), undefined)
  return { countries, text: writtenMember('countries', JSON.stringify(countries)) }
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
  const { deployments, keysOf } = mergeDeployments([offerOnlyOf({ deployments: given })])
  const targets = deployments.map(({ deployment }) => JSON.stringify(deployment))
  return {
    given,
    deployments,
    shown: writtenMember('deployments', `[${targets.join()}]`),
    states: targets.map((target) => `0 ${target}`),
    keys: writtenMember('deployments', JSON.stringify(keysOf[0])),
  }
})

/** What stands in a row before the handle of its only offer: the same in all rows of an upstream. */
const beforeHandle = remembered((upstream) =>
  remembered((agentUrl) => {
    const [name, url] = [JSON.stringify(upstream), JSON.stringify(agentUrl)]
    return flatText(BEFORE_OFFERS, '{"upstream":', name, ',"agent_url":', url, ',"handle":"')
  }),
)

const WRITTEN_HANDLE = JSON.stringify(HANDLE).slice(1, -1)

/** The prices of a signal's only offer: the end of its row in the pieces around its offer's handle, and the facts. */
const priced = rememberedBytes((text) => {
  const listing = offerOnlyOf({ pricing_options: JSON.parse(text) as PricingOption[] })
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

type Coverage = { readonly text: string; readonly percentage: number | undefined }

const NO_SHARE: Coverage = { text: '', percentage: undefined }
const share = rememberedBytes((text): Coverage => {
  const percentage = Number(text)
  return { text: writtenMember('coverage_percentage', `${percentage}`), percentage }
})

/** `claimed`: the reference that the listing gives. */
function coverageOf(members: Members, ref: SignalRef, claimed: SignalRef): Coverage {
  const { coverage_percentage, coverage_forecast, signal_id } = MEMBER
  const own = hasMember(members, coverage_percentage)
    ? recalled(share, members, coverage_percentage)
    : NO_SHARE
  if (!hasMember(members, coverage_forecast)) return own
  const listing: Estimated['listing'] = {
    signal_ref: claimed,
    ...(hasMember(members, signal_id) && { signal_id: JSON.parse(memberText(members, signal_id)) }),
    coverage_forecast: JSON.parse(memberText(members, coverage_forecast)),
    ...(own.percentage !== undefined && { coverage_percentage: own.percentage }),
  }
  const { percentage, forecast } = mergeCoverage([{ listing }], ref)
  const shown = { coverage_percentage: percentage, coverage_forecast: forecast }
  return { text: afterComma(JSON.stringify(shown).slice(1, -1)), percentage }
}

const NO_COUNTRIES = { countries: undefined, text: '' }

function boundsOf(members: Members, { verdict, upstream }: Selling, definition: Definition | undefined) {
  const isBound = hasMember(members, MEMBER.countries)
  const granted = verdict.outcome === 'authorized' ? verdict.countries : undefined
  if (!granted && !definition?.countries) {
    return isBound ? recalled(countryList, members, MEMBER.countries) : NO_COUNTRIES
  }
  const own = isBound ? { countries: JSON.parse(memberText(members, MEMBER.countries)) } : {}
  const countries = countriesOf({ listing: own as Offer['listing'], verdict, upstream }, definition)
  return { countries, text: countries ? writtenMember('countries', JSON.stringify(countries)) : '' }
}

/** What stands around the ids of a provider's signal in the references to it. */
const aroundIds = remembered((domain) => ({
  before: flatText(
    '"signal_ref":{"scope":"data_provider","data_provider_domain":"',
    domain,
    '","signal_id":"',
  ),
  between: flatText('"},"signal_id":{"source":"catalog","data_provider_domain":"', domain, '","id":"'),
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
  const { given, deployments, shown, states, keys } = recalled(placed, members, MEMBER.deployments)
  const sold = { signal_ref: claimed, deployments: given }
  const seller = sellerText(sellerOf(selling, sold, offer))
  const isPriced = hasMember(members, MEMBER.pricing_options)
  const sale = isPriced ? recalled(priced, members, MEMBER.pricing_options) : NO_PRICES
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
