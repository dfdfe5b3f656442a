/**
 * What get_signals and activate_signal take, and how a question for signals is read (specification, "Operation `get_signals`",
 * "Operation `activate_signal`"; schemas signals/get-signals-request and signals/activate-signal-request).
 */
import { type AdcpError, adcpError } from './answer.js'
import { AccountReference, type Caller } from './caller.js'
import { isRecord } from './json.js'
import { type Static, Type, wordOf } from './schema.js'
import {
  Country,
  destinationsOf,
  RequestedDestination,
  RequestedId,
  RequestedRef,
  refFromLegacy,
  type SignalRef,
  SignalType,
} from './signal.js'
import { IdempotencyKey, requestEnvelope } from './task-schemas.js'
import { canonicalUrl } from './url.js'

const MAX_DESTINATIONS = 100
/** The specification sets no maximum for arrays; a request that exceeds ours is not a discovery request. */
const MAX_REFS = 500
/** Signals on a page (specification, "Limits"). */
const DEFAULT_PAGE = 50
const MAX_PAGE = 100
const several = { minItems: 1, maxItems: MAX_REFS }

/** Fields that a caller may ask for by name (schema `fields`). */
export const PROJECTABLE = [
  'signal_ref',
  'signal_id',
  'signal_agent_segment_id',
  'name',
  'description',
  'value_type',
  'categories',
  'range',
  'signal_type',
  'data_provider',
  'coverage_percentage',
  'coverage_forecast',
  'deployments',
  'pricing_options',
  'taxonomy',
  'data_sources',
  'methodology',
  'segmentation_criteria',
  'criteria_url',
  'refresh_cadence',
  'lookback_window',
  'onboarder',
  'modeling',
  'audience_expansion',
  'device_expansion',
  'countries',
  'consent_basis',
  'restricted_attributes',
  'policy_categories',
  'demographic_predicate',
  'art9_basis',
  'data_subject_rights',
  'last_updated',
] as const

const Filters = Type.Object(
  {
    catalog_types: Type.Optional(Type.Array(SignalType, several)),
    data_providers: Type.Optional(
      Type.Array(
        Type.String({ pattern: '\\S', maxLength: 512, description: 'a provider: its domain or name' }),
        several,
      ),
    ),
    max_cpm: Type.Optional(Type.Number({ minimum: 0 })),
    max_percent: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
    min_coverage_percentage: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
    ext: Type.Optional(Type.Object({})),
  },
  { description: 'Narrows the answer. max_cpm drops a signal only when all its CPM prices exceed it.' },
)

/** The filters that are applied; of `ext` only what belongs to one of them. */
export const FILTER_NAMES = Object.keys(Filters.properties).filter((name) => name !== 'ext')

/** Milliseconds of each unit that has a length. */
export const UNIT_MS = { seconds: 1_000, minutes: 60_000, hours: 3_600_000, days: 86_400_000 } as const

/** A length of time as a request and its answer write it (schema core/duration). */
export const Duration = Type.Object(
  {
    interval: Type.Integer({ minimum: 1 }),
    unit: wordOf(['seconds', 'minutes', 'hours', 'days', 'campaign']),
  },
  { additionalProperties: false },
)
export type Duration = Static<typeof Duration>

/** Milliseconds. The unit `campaign` has no length in time, so it counts as endless. */
export function durationMs({ interval, unit }: Duration): number {
  return unit === 'campaign' ? Number.POSITIVE_INFINITY : interval * UNIT_MS[unit]
}

/** The shortest duration in whole seconds or minutes that is not shorter than `ms`. */
export function durationOf(ms: number): Duration {
  const seconds = Math.max(1, Math.ceil(ms / 1_000))
  return seconds <= 120
    ? { interval: seconds, unit: 'seconds' }
    : { interval: Math.ceil(seconds / 60), unit: 'minutes' }
}

export const GetSignalsRequest = Type.Object({
  ...requestEnvelope,
  discovery_mode: Type.Optional(
    wordOf(['brief', 'wholesale'], {
      description: 'wholesale: walk the whole priced feed page by page. brief (default): look signals up.',
    }),
  ),
  signal_spec: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 10_000,
      description: 'What you want to reach, in plain words. Brief mode only.',
    }),
  ),
  signal_refs: Type.Optional(
    Type.Array(RequestedRef, { ...several, description: 'Exact lookup. Brief mode only.' }),
  ),
  signal_ids: Type.Optional(
    Type.Array(RequestedId, { ...several, description: 'Deprecated form of signal_refs.', deprecated: true }),
  ),
  account: Type.Optional(AccountReference),
  destinations: Type.Optional(
    Type.Array(RequestedDestination, {
      ...several,
      description: 'Only signals that can be activated on at least one of these.',
    }),
  ),
  countries: Type.Optional(Type.Array(Country, several)),
  filters: Type.Optional(Filters),
  fields: Type.Optional(
    Type.Array(wordOf(PROJECTABLE), {
      minItems: 1,
      maxItems: PROJECTABLE.length,
      uniqueItems: true,
      description: 'Optional and definition fields to include; identity and deployments always are.',
    }),
  ),
  if_wholesale_feed_version: Type.Optional(
    Type.String({
      maxLength: 512,
      description: 'wholesale_feed_version of your copy: an unchanged feed answers without rows.',
    }),
  ),
  if_pricing_version: Type.Optional(
    Type.String({ maxLength: 512, description: 'pricing_version of your copy; only with the token above.' }),
  ),
  time_budget: Type.Optional(Duration),
  max_results: Type.Optional(
    Type.Integer({ minimum: 1, deprecated: true, description: 'Use pagination.max_results.' }),
  ),
  pagination: Type.Optional(
    Type.Object(
      {
        max_results: Type.Optional(
          Type.Integer({ minimum: 1, default: DEFAULT_PAGE, description: `At most ${MAX_PAGE}.` }),
        ),
        cursor: Type.Optional(
          Type.Union([Type.String({ maxLength: 4_096 }), Type.Null()], {
            description: 'pagination.cursor of the page before; absent or null for the first page.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description: 'Send it in wholesale mode; walk until has_more is false.',
      },
    ),
  ),
  push_notification_config: Type.Optional(Type.Object({ url: Type.String({ maxLength: 2_048 }) })),
})
export type GetSignalsRequest = Static<typeof GetSignalsRequest>

export const ActivateSignalRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  action: Type.Optional(
    wordOf(['activate', 'deactivate'], {
      description: 'Default: activate. Deactivate when a campaign ends.',
    }),
  ),
  signal_agent_segment_id: Type.String({
    minLength: 1,
    maxLength: 256,
    description:
      'The handle of a signal as get_signals gave it, or the handle of one of its offers to choose the upstream.',
  }),
  destinations: Type.Array(RequestedDestination, {
    minItems: 1,
    maxItems: MAX_DESTINATIONS,
    description: 'Where the signal should be live, or no longer be.',
  }),
  pricing_option_id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'The price you choose, from pricing_options. Required when the signal has prices.',
    }),
  ),
  governance_context: Type.Optional(
    Type.String({ minLength: 1, maxLength: 4_096, pattern: '^[\\x20-\\x7E]+$' }),
  ),
  account: Type.Optional(AccountReference),
})
export type ActivateSignalRequest = Static<typeof ActivateSignalRequest>

type Selecting = Pick<GetSignalsRequest, 'filters' | 'destinations' | 'countries' | 'fields'>

/** The parts of a request that choose and shape rows. */
export function selectionOf({ filters, destinations, countries, fields }: Selecting) {
  // Spreads stand last: with properties after them each object would get a hidden class of its own (server/door/dispatcher.ts).
  return {
    ...(filters && { filters }),
    ...(destinations && { destinations: destinationsOf(destinations) }),
    ...(countries && { countries }),
    ...(fields && { fields }),
  }
}

/** The signals that a request names, in its order; the deprecated form last. */
export function refsOf({ signal_refs = [], signal_ids = [] }: GetSignalsRequest): SignalRef[] {
  return [...signal_refs, ...signal_ids.map(refFromLegacy)]
}

/** How many signals a request names: who repeats a reference, or names it in both forms, asks for one. */
export function namedSignals(input: GetSignalsRequest): number {
  const names = refsOf(input).map((ref) =>
    ref.scope === 'signal_source'
      ? [ref.scope, canonicalUrl(ref.signal_source_url) ?? ref.signal_source_url, ref.signal_id]
      : [ref.scope, ref.scope === 'product' ? '' : ref.data_provider_domain, ref.signal_id],
  )
  return new Set(names.map((name) => name.join(' '))).size
}

/** How many signals the page may have. */
export function pageSizeOf({ pagination, max_results: deprecated }: GetSignalsRequest): number {
  return Math.min(MAX_PAGE, pagination?.max_results ?? deprecated ?? DEFAULT_PAGE)
}

/**
 * Undefined for the first page: a walk "restarts from `cursor: null`" (specification, Wholesale conditional-fetch
 * rules).
 */
export function cursorOf({ pagination }: GetSignalsRequest): string | undefined {
  return pagination?.cursor ?? undefined
}

/**
 * For any cursor that was not given for this query, whether forged, foreign or too old
 * (docs/decisions.md#snapshots-and-versions).
 */
export const BAD_CURSOR: AdcpError = adcpError(
  'INVALID_REQUEST',
  'The cursor is not one that this query was given, or it is too old.',
  { field: 'pagination.cursor', suggestion: 'Restart from the first page, without a cursor.' },
)

/** Which question an input asks that was not checked: the whole feed, signals by their references, or a brief. */
export function discoveryMode(input: unknown): 'wholesale' | 'lookup' | 'brief' {
  if (!isRecord(input)) return 'brief'
  if (input.discovery_mode === 'wholesale') return 'wholesale'
  return input.signal_refs !== undefined && input.signal_spec === undefined ? 'lookup' : 'brief'
}

/**
 * Whether rows of the feed are all that the answer needs: activation keys, and what is merged again for countries, come
 * from listings; what an account gets is its own.
 */
export function isPlainPage(input: GetSignalsRequest, { destinations: keys }: Caller): boolean {
  const { discovery_mode: mode, account, countries, destinations } = input
  return mode === 'wholesale' && !account && !countries && !destinations && keys.length === 0
}
