/**
 * Reads rows of earlier protocol releases into the current shape (docs/protocol.md#how-agents-differ): renamed and
 * regrouped fields only, never a value that the agent did not give. Every rule is by what stands in the row, not by
 * who sent it: agents mix releases.
 */
import { isRecord } from '../../adcp/json.js'
import { refFromLegacy, type SignalId } from '../../adcp/reference.js'
import { SIGNAL_TYPES } from '../../adcp/signal.js'

type Row = Record<string, unknown>

const TYPES: ReadonlySet<unknown> = new Set(SIGNAL_TYPES)

/** Before 3.0 a price was one object, `pricing`; the ids are ours, and are never sent back to such an agent. */
function pricingOptions(pricing: Row): Row[] {
  const { cpm, revenue_share_percentage: percent, currency } = pricing
  const base = { currency }
  const options: Row[] = []
  if (typeof cpm === 'number') options.push({ pricing_option_id: 'cpm', model: 'cpm', cpm, ...base })
  if (typeof percent === 'number') {
    options.push({ pricing_option_id: 'percent_of_media', model: 'percent_of_media', percent, ...base })
  }
  return options
}

/** Before 3.0 a deployment was always a platform's, its key a bare segment id. */
function deployment(raw: unknown): unknown {
  if (!isRecord(raw)) return raw
  const key = raw.decisioning_platform_segment_id
  const needsKey = raw.is_live === true && raw.activation_key === undefined && typeof key === 'string'
  if (raw.type !== undefined && !needsKey) return raw
  return {
    ...raw,
    type: raw.type ?? (raw.platform === undefined ? 'agent' : 'platform'),
    ...(needsKey && { activation_key: { type: 'segment_id', segment_id: key } }),
  }
}

function isOldDeployment(raw: unknown): boolean {
  return deployment(raw) !== raw
}

/**
 * Before 3.0 `signal_type` told the kind of data ("audience"): a row that names its provider is resold, one that does
 * not is the source's own.
 */
function signalType(row: Row): string {
  return typeof row.data_provider === 'string' && row.data_provider !== '' ? 'marketplace' : 'owned'
}

function isLegacyId(id: unknown): id is SignalId {
  return isRecord(id) && (id.source === 'catalog' || id.source === 'agent')
}

/** Domain names compare in lower case (specification, "SignalRef"; DNS). */
function lowerDomain(named: unknown): unknown {
  if (!isRecord(named) || typeof named.data_provider_domain !== 'string') return named
  const domain = named.data_provider_domain.toLowerCase()
  return domain === named.data_provider_domain ? named : { ...named, data_provider_domain: domain }
}

/** The same object when the row is current already. */
export function modernise(row: Row): Row {
  const changes: Row = {}
  const id = lowerDomain(row.signal_id)
  const ref = lowerDomain(row.signal_ref)
  if (id !== row.signal_id) changes.signal_id = id
  if (ref !== row.signal_ref) changes.signal_ref = ref
  if (!isRecord(ref) && isLegacyId(id)) changes.signal_ref = refFromLegacy(id)
  if (row.signal_agent_segment_id === undefined && row.signals_agent_segment_id !== undefined) {
    changes.signal_agent_segment_id = row.signals_agent_segment_id
  }
  if (!TYPES.has(row.signal_type)) changes.signal_type = signalType(row)
  if (row.pricing_options === undefined && isRecord(row.pricing)) {
    changes.pricing_options = pricingOptions(row.pricing)
  }
  if (Array.isArray(row.deployments) && row.deployments.some(isOldDeployment)) {
    changes.deployments = row.deployments.map(deployment)
  }
  for (const _ in changes) return { ...row, ...changes }
  return row
}
