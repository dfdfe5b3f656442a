/**
 * What every request may carry in addition to its task's own fields (docs/protocol.md#versions, #envelope; schemas
 * core/version-envelope and core/protocol-envelope). A task's request schema spreads these in, so that one validator
 * sees the whole request and the tool schema shows the whole request: some clients drop arguments that a tool does
 * not list.
 */
import { Type } from '../type.js'

/** The form of an idempotency key, for every task that requires one (docs/protocol.md#requests). */
export const IdempotencyKey = Type.String({
  pattern: '^[A-Za-z0-9_.:-]{16,255}$',
  description: 'Names this request: sending it again with the same key repeats nothing. Use a UUID.',
})

export const requestEnvelope = {
  adcp_version: Type.Optional(
    Type.String({
      pattern: '^\\d+\\.\\d+(-[a-zA-Z0-9.-]+)?$',
      maxLength: 64,
      description: 'The protocol release you speak, such as "3.1".',
    }),
  ),
  adcp_major_version: Type.Optional(Type.Integer({ minimum: 1, maximum: 99 })),
  context: Type.Optional(
    Type.Object({}, { description: 'Anything of yours: it comes back as you sent it.' }),
  ),
  context_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: 'The context_id of an earlier answer.' }),
  ),
  idempotency_key: Type.Optional(Type.String({ maxLength: 255 })),
  ext: Type.Optional(Type.Object({})),
}
