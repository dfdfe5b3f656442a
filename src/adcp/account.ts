/** How a request names the account it is about (specification, "account"; schema core/account-ref). */
import { type Static, Type } from '@sinclair/typebox'

const Domain = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$',
  maxLength: 253,
})

export const AccountReference = Type.Union([
  Type.Object(
    { account_id: Type.String({ minLength: 1, maxLength: 256 }) },
    { additionalProperties: false, description: 'An account by the id this agent gave it.' },
  ),
  Type.Object(
    {
      brand: Type.Object({
        domain: Domain,
        brand_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
      }),
      operator: Domain,
      sandbox: Type.Optional(Type.Boolean()),
    },
    {
      additionalProperties: false,
      description: 'An account by its natural key: whose brand, operated by whom.',
    },
  ),
])
export type AccountReference = Static<typeof AccountReference>
