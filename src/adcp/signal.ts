/**
 * How a signal is named, the shape of its row, as upstreams send it and as we publish it (specification, "SignalRef",
 * "Signal", "Deployment", "PricingOption"), and the names of what happens to it. Lengths and counts are
 * ours: the specification sets none, and a row that exceeds them is not a signal.
 */
import { type Static, type TString, Type, wordOf } from './schema.js'
import { canonicalUrl } from './url.js'

export const LocalId = Type.String({ pattern: '^[a-zA-Z0-9_-]+$', maxLength: 256 })
export const Domain = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$',
  maxLength: 253,
})
const Text = Type.String({ maxLength: 8_192 })
const Short = Type.String({ minLength: 1, maxLength: 512 })
/** In a row: what is no url costs the member that it stands in, and not the row (docs/upstreams.md). */
const Url = Type.String({ minLength: 1, maxLength: 2_048 })
/** In a request: what is no url finds nothing, and the caller is told why. */
const RequestedUrl = Type.String({ format: 'uri', maxLength: 2_048 })
export const Currency = Type.String({ pattern: '^[A-Z]{3}$' })
const Amount = Type.Number({ minimum: 0 })
export const Country = Type.String({ pattern: '^[A-Z]{2}$' })

/** Members of another kind of reference, beside which it would not be clear what is meant (schema core/signal-ref, `not`). */
const without = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, Type.Optional(Type.Unsafe<never>({ not: {} }))])) as object
const withAny = () => ({})

const refWith = (url: TString, unwanted: typeof without) =>
  Type.Union([
    Type.Object({
      scope: Type.Literal('data_provider'),
      data_provider_domain: Domain,
      signal_id: LocalId,
      ...unwanted('agent_url', 'signal_source_url', 'source', 'id'),
    }),
    Type.Object({
      scope: Type.Literal('signal_source'),
      signal_source_url: url,
      signal_id: LocalId,
      ...unwanted('agent_url', 'data_provider_domain', 'source', 'id'),
    }),
    Type.Object({
      scope: Type.Literal('product'),
      signal_id: LocalId,
      ...unwanted('agent_url', 'data_provider_domain', 'signal_source_url', 'source', 'id'),
    }),
  ])
/** The canonical name of a signal (schema core/signal-ref). */
const SignalRef = refWith(Url, withAny)
export type SignalRef = Static<typeof SignalRef>
export const RequestedRef = refWith(RequestedUrl, without)

const idWith = (url: TString) =>
  Type.Union([
    Type.Object({ source: Type.Literal('catalog'), data_provider_domain: Domain, id: LocalId }),
    Type.Object({ source: Type.Literal('agent'), agent_url: url, id: LocalId }),
  ])
/** The legacy `signal_id` (schema core/signal-id). */
const SignalId = idWith(Url)
export type SignalId = Static<typeof SignalId>
export const RequestedId = idWith(RequestedUrl)

/** The canonical reference that a legacy id stands for (docs/decisions.md#identity). */
export function refFromLegacy(id: SignalId): SignalRef {
  return id.source === 'catalog'
    ? { scope: 'data_provider', data_provider_domain: id.data_provider_domain, signal_id: id.id }
    : { scope: 'signal_source', signal_source_url: id.agent_url, signal_id: id.id }
}

/** The legacy id of a reference, for clients that read only `signal_id`; a product reference has none. */
export function legacyFromRef(ref: SignalRef): SignalId | undefined {
  if (ref.scope === 'data_provider') {
    return { source: 'catalog', data_provider_domain: ref.data_provider_domain, id: ref.signal_id }
  }
  if (ref.scope === 'signal_source') {
    return { source: 'agent', agent_url: ref.signal_source_url, id: ref.signal_id }
  }
  return undefined
}

export const SIGNAL_TYPES = ['marketplace', 'owned', 'custom'] as const
export const SignalType = wordOf(SIGNAL_TYPES)
export type SignalType = (typeof SIGNAL_TYPES)[number]

export const VALUE_TYPES = ['binary', 'categorical', 'numeric'] as const
export type ValueType = (typeof VALUE_TYPES)[number]

export const ActivationKey = Type.Union([
  Type.Object({ type: Type.Literal('segment_id'), segment_id: Short }),
  Type.Object({ type: Type.Literal('key_value'), key: Short, value: Short }),
])
export type ActivationKey = Static<typeof ActivationKey>

const deploymentState = {
  account: Type.Optional(Short),
  is_live: Type.Boolean(),
  activation_key: Type.Optional(ActivationKey),
  estimated_activation_duration_minutes: Type.Optional(Amount),
  deployed_at: Type.Optional(Type.String({ format: 'date-time' })),
}
export const Deployment = Type.Union([
  Type.Object({ type: Type.Literal('platform'), platform: Short, ...deploymentState }),
  Type.Object({ type: Type.Literal('agent'), agent_url: Url, ...deploymentState }),
])
export type Deployment = Static<typeof Deployment>

export const Destination = Type.Union([
  Type.Object({ type: Type.Literal('platform'), platform: Short, account: Type.Optional(Short) }),
  Type.Object({ type: Type.Literal('agent'), agent_url: Url, account: Type.Optional(Short) }),
])
export type Destination = Static<typeof Destination>

const asRequested = { account: Type.Optional(Type.Union([Short, Type.Null()])) }
/** A destination in a request: copied from a deployment, its account may be null (specification, "Deployment"). */
export const RequestedDestination = Type.Union([
  Type.Object({ type: Type.Literal('platform'), platform: Short, ...asRequested }),
  Type.Object({ type: Type.Literal('agent'), agent_url: RequestedUrl, ...asRequested }),
])
export type RequestedDestination = Static<typeof RequestedDestination>

/** The destination as it is matched: an account of null means no account. */
export function destinationsOf(requested: readonly RequestedDestination[]): Destination[] {
  return requested.map(({ account, ...target }) => ({
    ...target,
    ...(typeof account === 'string' && { account }),
  }))
}

/** One text for each target, however its url is spelled. */
function targetName({ account, ...target }: Destination): string {
  const at = target.type === 'agent' ? (canonicalUrl(target.agent_url) ?? target.agent_url) : target.platform
  return JSON.stringify([target.type, at, account])
}

/** Each target once, as it was named first. */
export function eachOnce(destinations: readonly Destination[]): Destination[] {
  const names = destinations.map(targetName)
  return destinations.filter((_, at) => names.indexOf(names[at] as string) === at)
}

const option = { pricing_option_id: Short, ext: Type.Optional(Type.Object({})) }
export const PricingOption = Type.Union([
  Type.Object({ ...option, model: Type.Literal('cpm'), cpm: Amount, currency: Currency }),
  Type.Object({
    ...option,
    model: Type.Literal('percent_of_media'),
    percent: Type.Number({ minimum: 0, maximum: 100 }),
    max_cpm: Type.Optional(Amount),
    currency: Currency,
  }),
  Type.Object({
    ...option,
    model: Type.Literal('flat_fee'),
    amount: Amount,
    period: wordOf(['monthly', 'quarterly', 'annual', 'campaign']),
    currency: Currency,
  }),
  Type.Object({
    ...option,
    model: Type.Literal('per_unit'),
    unit: Short,
    unit_price: Amount,
    currency: Currency,
  }),
  Type.Object({
    ...option,
    model: Type.Literal('custom'),
    description: Text,
    metadata: Type.Object({}, { minProperties: 1 }),
    currency: Type.Optional(Currency),
  }),
])
export type PricingOption = Static<typeof PricingOption>

const nonEmpty = { minItems: 1, maxItems: 1_000 }
/** Whatever it holds: who publishes the field checks it, so a wrong one costs the field and not the row. */
const kept = Type.Optional(Type.Unknown())
/**
 * Definition fields: the provider's own words about a signal (schema core/signal-definition-enrichment). A member that is not
 * named here is cut from a row as one that the protocol does not know, so every member that may be published is.
 */
const definitionFields = {
  restricted_attributes: Type.Optional(Type.Array(Short, nonEmpty)),
  policy_categories: Type.Optional(Type.Array(Short, nonEmpty)),
  demographic_predicate: Type.Optional(Type.Object({ age: Type.Object({}) })),
  taxonomy: Type.Optional(
    Type.Object({
      ref: Url,
      values: Type.Array(Type.Object({ id: Short, path: kept, modifiers: kept }), nonEmpty),
      version: kept,
      segtax: kept,
      etag: kept,
      value_mappings: kept,
      parent_match_behavior: kept,
    }),
  ),
  segmentation_criteria: Type.Optional(Type.String({ maxLength: 500 })),
  criteria_url: Type.Optional(Url),
  data_sources: Type.Optional(Type.Array(Short, nonEmpty)),
  methodology: Type.Optional(Short),
  methodology_url: Type.Optional(Url),
  audience_expansion: Type.Optional(Type.Boolean()),
  device_expansion: Type.Optional(Type.Boolean()),
  refresh_cadence: Type.Optional(Short),
  lookback_window: Type.Optional(Short),
  onboarder: Type.Optional(
    Type.Object({
      match_keys: Type.Array(Short, nonEmpty),
      pre_onboarding_audience_expansion: kept,
      pre_onboarding_device_expansion: kept,
      pre_onboarding_precision_level: kept,
    }),
  ),
  countries: Type.Optional(Type.Array(Country, nonEmpty)),
  consent_basis: Type.Optional(Type.Array(Short, nonEmpty)),
  art9_basis: Type.Optional(Short),
  modeling: Type.Optional(Type.Object({})),
  data_subject_rights: Type.Optional(
    Type.Object({
      channels: Type.Array(Type.Object({}), nonEmpty),
      upstream_source_domain: kept,
      response_sla_days: kept,
      ccpa_opt_out_url: kept,
    }),
  ),
  last_updated: Type.Optional(Type.String({ format: 'date-time' })),
  dts_compliant_version: Type.Optional(Short),
}

export const SignalRow = Type.Object({
  signal_ref: Type.Optional(SignalRef),
  signal_id: Type.Optional(SignalId),
  signal_agent_segment_id: Short,
  name: Short,
  description: Text,
  value_type: Type.Optional(wordOf(VALUE_TYPES)),
  categories: Type.Optional(Type.Array(Short, nonEmpty)),
  range: Type.Optional(Type.Object({ min: Type.Number(), max: Type.Number() })),
  signal_type: SignalType,
  data_provider: Type.Optional(Type.String({ maxLength: 512 })),
  coverage_percentage: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  coverage_forecast: kept, // adcp/coverage-forecast.ts says what may be published
  deployments: Type.Array(Deployment, { maxItems: 1_000 }),
  pricing_options: Type.Optional(Type.Array(PricingOption, { minItems: 1, maxItems: 200 })),
  ...definitionFields,
})
export type SignalRow = Static<typeof SignalRow>

const SIGNAL_EVENTS = ['signal.created', 'signal.updated', 'signal.priced', 'signal.removed'] as const
export const BULK_EVENT = 'wholesale_feed.bulk_change'
/** What a webhook of a feed can tell (schema core/wholesale-feed-event). */
export const FEED_EVENTS = [...SIGNAL_EVENTS, BULK_EVENT] as const
export type FeedEventType = (typeof FEED_EVENTS)[number]
