/**
 * What the origin of a signal says about it: the body of a definition in adagents.json `signals[]`, and of the
 * definition fields on a row (schemas core/signal-definition and core/signal-definition-enrichment).
 */
import type { SignalRow } from '../src/adcp/signal.js'
import type { Market, MarketSignal } from './market.js'

/** The part that fits on a feed row. */
export type Basics = Pick<
  SignalRow,
  | 'restricted_attributes'
  | 'policy_categories'
  | 'data_sources'
  | 'methodology'
  | 'refresh_cadence'
  | 'countries'
  | 'consent_basis'
  | 'art9_basis'
  | 'criteria_url'
>
export type Definition = Basics &
  Pick<
    SignalRow,
    | 'taxonomy'
    | 'segmentation_criteria'
    | 'audience_expansion'
    | 'device_expansion'
    | 'lookback_window'
    | 'onboarder'
    | 'modeling'
    | 'data_subject_rights'
  >

const EVIDENCE_AGE: Readonly<Record<string, string>> = { weekly: 'daily', monthly: 'weekly' }
const EU = new Set(['BE', 'DE', 'ES', 'FR', 'IT', 'PL', 'SE']) // the first country of each place that lies there
const OFFLINE = new Set(['public_record_other', 'offline_transaction'])

function taxonomyOf({ theme, subject, stance }: MarketSignal) {
  const path = `${theme.branch} | ${subject.name}`
  const id = `${theme.key}-${theme.subjects.indexOf(subject) + 1}`
  const taxonomy = {
    ref: 'https://taxonomy.signalcommons.example/audience/1.1',
    version: '1.1',
    values: [{ id, path }],
  }
  if (!stance.values) return taxonomy
  const value_mappings = stance.values.map((value) => ({
    value,
    taxonomy_value_id: id,
    path: `${path} | ${value}`,
  }))
  return { ...taxonomy, value_mappings }
}

function modelingOf({ place, stance, subject }: MarketSignal) {
  const country = place.countries[0] as string
  const disclosed = EU.has(country) && subject.restricted !== undefined
  return {
    method: stance.range ? 'supervised' : 'lookalike',
    seed_source: {
      type: stance.sources.includes('transaction') ? 'transactional' : 'behavioral',
      provider_signed: true,
    },
    training_data_jurisdictions: [...place.countries],
    ai_act_risk_class: subject.restricted ? 'limited' : 'minimal',
    disclosure: disclosed
      ? {
          required: true,
          jurisdictions: [{ country, regulation: 'EU AI Act, Article 50', audience: 'buyer' }],
        }
      : { required: false },
  }
}

function rightsOf({ domain, place }: MarketSignal) {
  return {
    channels: [
      {
        rights: ['access', 'erasure', 'objection'],
        url: `https://${domain}/privacy/requests`,
        countries: [...place.countries],
      },
      { rights: ['rectification', 'portability'], email: `privacy@${domain}` },
    ],
    response_sla_days: 30,
    ...(place.countries.includes('US') ? { ccpa_opt_out_url: `https://${domain}/privacy/do-not-sell` } : {}),
  }
}

function consentOf(market: Market, { index, place, subject }: MarketSignal): string[] | undefined {
  if (subject.art9) return ['consent']
  // Some origins say nothing; then the sellers' words are all there is (docs/decisions.md#trust).
  if (market.chance(index, 'silent on consent') < 0.08) return undefined
  return market.chance(index, 'two bases') < 0.1 ? ['consent', 'legitimate_interest'] : [place.basis]
}

// Absent fields are undefined properties, here and on rows: JSON drops them, and objects of one shape are made and
// written several times faster than spread ones. Feeds of a million rows are read from this process.

/** What an agent repeats on every row. */
export function basicsOf(market: Market, signal: MarketSignal): Basics {
  const { stance, subject, window, place } = signal
  return {
    restricted_attributes: subject.restricted,
    policy_categories: subject.policy,
    data_sources: stance.sources,
    methodology: stance.methodology,
    refresh_cadence: EVIDENCE_AGE[window.cadence] ?? 'monthly',
    countries: place.countries,
    consent_basis: consentOf(market, signal),
    art9_basis: subject.art9,
    criteria_url: `https://${signal.domain}/signals/${signal.id}`,
  }
}

/** Everything but id, name, description and value type. */
export function definitionOf(market: Market, signal: MarketSignal): Definition {
  const { stance, subject, window } = signal
  const modeled = stance.methodology === 'modeled'
  return {
    ...basicsOf(market, signal),
    taxonomy: taxonomyOf(signal),
    segmentation_criteria: `${stance.label}: evidence of ${subject.about} in ${window.says}; opted-out people removed daily.`,
    audience_expansion: modeled,
    device_expansion: market.chance(signal.index, 'devices') < 0.3,
    lookback_window: window.cadence,
    onboarder: stance.sources.some((source) => OFFLINE.has(source))
      ? { match_keys: ['address', 'email'] }
      : undefined,
    modeling: modeled ? modelingOf(signal) : undefined,
    data_subject_rights: rightsOf(signal),
  }
}

/** The kind of values that a signal has, with them. */
export function valuesOf({ stance }: MarketSignal): Pick<SignalRow, 'value_type' | 'categories' | 'range'> {
  if (stance.values) return { value_type: 'categorical', categories: [...stance.values] }
  if (stance.range) return { value_type: 'numeric', range: { ...stance.range } }
  return { value_type: 'binary' }
}
