/**
 * How a signal is named: the canonical `signal_ref` and the legacy `signal_id`, and the way from one to the other
 * (specification, "SignalRef"; schemas core/signal-ref and core/signal-id).
 */
import { type Static, Type } from './type.js'

const LocalId = Type.String({ pattern: '^[a-zA-Z0-9_-]+$', maxLength: 256 })
const ProviderDomain = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$',
  maxLength: 253,
})
const AgentUrl = Type.String({ minLength: 1, maxLength: 2048 })

export const SignalRef = Type.Union([
  Type.Object({
    scope: Type.Literal('data_provider'),
    data_provider_domain: ProviderDomain,
    signal_id: LocalId,
  }),
  Type.Object({ scope: Type.Literal('signal_source'), signal_source_url: AgentUrl, signal_id: LocalId }),
  Type.Object({ scope: Type.Literal('product'), signal_id: LocalId }),
])
export type SignalRef = Static<typeof SignalRef>

export const SignalId = Type.Union([
  Type.Object({ source: Type.Literal('catalog'), data_provider_domain: ProviderDomain, id: LocalId }),
  Type.Object({ source: Type.Literal('agent'), agent_url: AgentUrl, id: LocalId }),
])
export type SignalId = Static<typeof SignalId>

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
