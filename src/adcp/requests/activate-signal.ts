/** What activate_signal takes (specification, "Operation `activate_signal`"; schema signals/activate-signal-request). */
import { AccountReference } from '../caller.js'
import { RequestedDestination } from '../signal.js'
import { type Static, Type } from '../type.js'
import { IdempotencyKey, requestEnvelope } from './envelope.js'

const MAX_DESTINATIONS = 100

export const ActivateSignalRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  action: Type.Optional(
    Type.Union([Type.Literal('activate'), Type.Literal('deactivate')], {
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
