/**
 * What the origin of a signal says about it: the body of a definition in adagents.json `signals[]`, and of the
 * definition fields on a row (schemas core/signal-definition and core/signal-definition-enrichment).
 */
import type { SignalRow } from '../adcp/signal.js'
import type { Market, MarketSignal } from './market.js'

export type Definition = Pick<
  SignalRow,
  | 'restricted_attributes'
  | 'policy_categories'
  | 'taxonomy'
  | 'segmentation_criteria'
  | 'criteria_url'
  | 'data_sources'
  | 'methodology'
  | 'audience_expansion'
  | 'device_expansion'
  | 'refresh_cadence'
  | 'lookback_window'
  | 'onboarder'
  | 'countries'
  | 'consent_basis'
  | 'art9_basis'
  | 'modeling'
  | 'data_subject_rights'
>

const EVIDENCE_AGE: Readonly<Record<string, string>> = { weekly: 'daily', monthly: 'weekly' }
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
  const disclosed = place.basis === 'consent' && subject.restricted !== undefined
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
  // Some origins say nothing; then the sellers' words are all there is (DESIGN 5.3).
  if (market.chance(index, 'silent on consent') < 0.08) return undefined
  return market.chance(index, 'two bases') < 0.1 ? ['consent', 'legitimate_interest'] : [place.basis]
}

/** Everything but id, name, description and value type. */
export function definitionOf(market: Market, signal: MarketSignal): Definition {
  const { stance, subject, window, place } = signal
  const consent = consentOf(market, signal)
  return {
    ...(subject.restricted ? { restricted_attributes: [...subject.restricted] } : {}),
    ...(subject.policy ? { policy_categories: [...subject.policy] } : {}),
    taxonomy: taxonomyOf(signal),
    segmentation_criteria: `Evidence of "${subject.about}" ${window.says}; opted-out people removed daily.`,
    criteria_url: `https://${signal.domain}/signals/${signal.id}`,
    data_sources: [...stance.sources],
    methodology: stance.methodology,
    audience_expansion: stance.methodology === 'modeled',
    device_expansion: market.chance(signal.index, 'devices') < 0.3,
    refresh_cadence: EVIDENCE_AGE[window.cadence] ?? 'monthly',
    lookback_window: window.cadence,
    ...(stance.sources.some((source) => OFFLINE.has(source))
      ? { onboarder: { match_keys: ['address', 'email'] } }
      : {}),
    countries: [...place.countries],
    ...(consent ? { consent_basis: consent } : {}),
    ...(subject.art9 ? { art9_basis: subject.art9 } : {}),
    ...(stance.methodology === 'modeled' ? { modeling: modelingOf(signal) } : {}),
    data_subject_rights: rightsOf(signal),
  }
}

/** The kind of values that a signal has, with them. */
export function valuesOf({ stance }: MarketSignal): Pick<SignalRow, 'value_type' | 'categories' | 'range'> {
  if (stance.values) return { value_type: 'categorical', categories: [...stance.values] }
  if (stance.range) return { value_type: 'numeric', range: { ...stance.range } }
  return { value_type: 'binary' }
}
