/** The request of get_adcp_capabilities (schema protocol/get-adcp-capabilities-request). */
import { type Static, Type } from '@sinclair/typebox'
import { requestEnvelope } from '../envelope.js'

export const CapabilitiesRequest = Type.Object({
  ...requestEnvelope,
  protocols: Type.Optional(
    Type.Array(
      Type.Union([
        Type.Literal('media_buy'),
        Type.Literal('signals'),
        Type.Literal('governance'),
        Type.Literal('sponsored_intelligence'),
        Type.Literal('creative'),
      ]),
      { minItems: 1, maxItems: 16, description: 'Only these protocols; this agent speaks signals.' },
    ),
  ),
})
export type CapabilitiesRequest = Static<typeof CapabilitiesRequest>
