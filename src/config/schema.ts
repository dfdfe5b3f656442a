/**
 * The configuration file as operators write it (docs/configuration.md): one schema for the type, the check and the
 * messages, and the form of the rules that a schema cannot say.
 */
import { PREVIEWS } from '../adcp/answer.js'
import { AccountReference } from '../adcp/caller.js'
import { type Static, type TSchema, Type } from '../adcp/schema.js'

const strict = { additionalProperties: false }
/** What an error may show of a wrong value (shown-value.ts); without this, nothing. */
type Holds = { holds: 'plain' | 'name' | 'url' | 'secret' }
const secret: Holds = { holds: 'secret' }
const plain: Holds = { holds: 'plain' }
const names: Holds = { holds: 'name' }
/** Of a mapping: its keys are names that somebody chose, and an error may show them. None of its section holds a secret. */
const chosen: { keys: 'name' } = { keys: 'name' }
const HttpUrl = Type.String({
  ...{ pattern: '^https?://[^\\s/]+', description: 'an http or https url' },
  ...({ holds: 'url' } satisfies Holds),
})
const Duration = Type.String({
  ...plain,
  pattern: '^([0-9]{1,9}(ms|s)|[0-9]{1,6}(m|h|d))$', // no date beyond what a clock can hold
  description: 'a duration such as 250ms, 30s, 5m, 24h or 7d',
})
const Bytes = Type.String({
  ...plain,
  pattern: '^[0-9]{1,6}(B|KiB|MiB|GiB)$',
  description: 'a size such as 256KiB, 32MiB or 1GiB',
})
const Id = Type.String({
  ...names,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  description: 'an id of up to 64 letters, digits, dots, dashes and underscores',
})
const Text = Type.String({ minLength: 1, description: 'a text' })
const Name = Type.String({ ...names, minLength: 1, description: 'a text' })
const Flag = Type.Boolean({ ...plain, description: 'true or false' })
const Currency = Type.String({
  ...plain,
  pattern: '^[A-Z]{3}$',
  description: 'a currency such as USD (ISO 4217)',
})
const Rate = Type.Number({ ...plain, exclusiveMinimum: 0, description: 'a number over 0' })
const Network = Type.String({ ...names, description: 'a network such as 127.0.0.0/8' })
const MIN_KEY = 32
const KEY = `a secret of at least ${MIN_KEY} characters, as \`openssl rand -base64 32\` prints one`

function oneOf<const T extends string>(...values: T[]) {
  return Type.Unsafe<T>({
    ...plain,
    type: 'string',
    enum: values,
    description: `one of ${values.join(', ')}`,
  })
}

const maybe = <T extends TSchema>(schema: T) => Type.Optional(schema)
const object = <T extends Record<string, TSchema>>(properties: T) => Type.Object(properties, strict)
const whole = (minimum: number, maximum: number) =>
  Type.Integer({ ...plain, minimum, maximum, description: `a whole number from ${minimum} to ${maximum}` })

const AuthType = oneOf('none', 'bearer', 'header')
const Auth = object({
  type: { ...AuthType, ...secret }, // where some write `Bearer` and the token
  token: maybe(Text),
  name: maybe(Text), // where some write the value, too
  value: maybe(Text),
})
const DestinationGrant = object({
  type: oneOf('platform', 'agent'),
  platform: maybe(Name),
  agent_url: maybe(HttpUrl),
  account: maybe(Text),
})

const PemKey = object({ id: Text, private_key: Text })
const SigningKey = Type.Unsafe<string | Static<typeof PemKey>>({
  ...PemKey,
  type: ['string', 'object'],
  description: 'a JSON Web Key as text, or a mapping of id and private_key (PEM)',
})

const JsonWebKey = Type.Unsafe<Record<string, unknown>>(Type.Object({ kid: maybe(Type.Unknown()) }))

const Signing = object({
  jwks: maybe(object({ keys: Type.Array(JsonWebKey, { minItems: 1 }) })),
  jwks_url: maybe(HttpUrl),
  required: maybe(Flag),
  revoked: maybe(Type.Array(Text)),
})

const RosterRule = object({
  urls: Type.Optional(Type.Array(HttpUrl)),
  members: Type.Optional(Type.Array(Name)),
})

export const ConfigFile = object({
  listen: maybe(
    object({
      host: maybe(Name),
      port: maybe(whole(0, 65_535)),
      public_url: maybe(HttpUrl),
      drain: maybe(Duration),
      trusted_proxies: maybe(Type.Array(Network)),
    }),
  ),
  registries: maybe(
    Type.Array(
      object({ url: HttpUrl, refresh: maybe(Duration), headers: maybe(Type.Record(Type.String(), Text)) }),
    ),
  ),
  upstreams: maybe(
    Type.Array(
      object({
        id: maybe(Id),
        url: HttpUrl,
        protocol: maybe(oneOf('mcp', 'a2a')),
        auth: maybe(Auth),
        seeds: maybe(Type.Array(Text)),
        account_prices: maybe(oneOf('withheld', 'public')),
        exclude: maybe(Flag),
      }),
    ),
  ),
  discovery: maybe(
    object({
      include: maybe(RosterRule),
      exclude: maybe(RosterRule),
      verified_only: maybe(Flag),
    }),
  ),
  defaults: maybe(
    object({
      timeout: maybe(Duration),
      refresh: maybe(Duration),
      stale_after: maybe(Duration),
      drop_after: maybe(Duration),
      concurrency: maybe(whole(1, 32)), // one origin never gets more connections (net/egress.ts)
      page_size: maybe(whole(1, 100)),
      seeds_from_briefs: maybe(Flag),
    }),
  ),
  authorization: maybe(
    object({
      policy: maybe(oneOf('strict', 'lenient', 'observe')),
      refresh: maybe(Duration),
      providers: maybe(
        Type.Record(
          Type.String(),
          object({ policy: maybe(oneOf('strict', 'lenient', 'observe')), confirm_pointer: maybe(HttpUrl) }),
          chosen,
        ),
      ),
    }),
  ),
  egress: maybe(
    object({
      allow_http: maybe(Flag),
      allow_networks: maybe(Type.Array(Network)),
      webhook_networks: maybe(Type.Array(Network)),
      hosts: maybe(Type.Record(Type.String(), HttpUrl, chosen)),
    }),
  ),
  limits: maybe(
    object({
      rows_per_upstream: maybe(whole(1, 1_000_000_000)),
      row_bytes: maybe(Bytes),
      page_bytes: maybe(Bytes),
      provider_domains_per_upstream: maybe(whole(1, 10_000_000)),
      provider_bytes: maybe(Bytes),
      memory: maybe(Bytes),
      under_way: maybe(Bytes),
      walk_time: maybe(Duration),
    }),
  ),
  callers: maybe(
    object({
      anonymous: maybe(oneOf('deny', 'metadata')),
      keys: maybe(
        Type.Array(
          object({
            id: Id,
            token_sha256: maybe(Type.String({ pattern: '^[0-9a-fA-F]{64}$', description: '64 hex digits' })),
            role: maybe(oneOf('buyer', 'operator')),
            destinations: maybe(Type.Array(DestinationGrant)),
            accounts: maybe(Type.Record(Type.String(), Type.Record(Type.String(), AccountReference))),
            credentials: maybe(Type.Record(Type.String(), Auth)),
            signing: maybe(Signing),
          }),
        ),
      ),
      jwt: maybe(object({ issuer: Text, audience: Text, jwks_url: HttpUrl })),
      rate_limit: maybe(
        object({
          per_second: maybe(Rate),
          burst: maybe(whole(1, 1_000_000_000)),
        }),
      ),
    }),
  ),
  events: maybe(
    object({
      brand_json_url: maybe(HttpUrl),
      signing_key: maybe(SigningKey),
      public_url: maybe(HttpUrl),
    }),
  ),
  webhooks: maybe(object({ signing_key: maybe(PemKey) })),
  log: maybe(object({ level: maybe(oneOf('debug', 'info', 'warn', 'error')) })),
  storage: maybe(
    object({
      url: maybe(
        Type.String({
          pattern: '^(file:.+|postgres(ql)?://.+)',
          description: 'file:FOLDER or postgres://...',
        }),
      ),
      key: maybe(
        Type.Unsafe<string | string[]>({
          ...{ type: ['string', 'array'], minLength: MIN_KEY, minItems: 1 },
          items: { type: 'string', minLength: MIN_KEY, description: KEY },
          description: `${KEY}, or a list of them, the newest first`,
        }),
      ),
      retention: maybe(
        object({
          ledger: maybe(Duration),
          tasks: maybe(Duration),
          calls: maybe(Duration),
          answers: maybe(Duration),
        }),
      ),
    }),
  ),
  sandbox: maybe(Flag),
  currencies: maybe(
    object({
      as_of: Type.String({ ...plain, format: 'date', description: 'a day such as 2026-11-01' }),
      in: maybe(Currency),
      rates: Type.Record(Type.String({ pattern: '^[A-Z]{3}$' }), Rate, {
        ...strict,
        ...chosen,
        minProperties: 1,
      }),
    }),
  ),
  preview_releases: maybe(Type.Array(oneOf(...PREVIEWS))),
  test_controller: maybe(Flag),
})
export type ConfigFile = Static<typeof ConfigFile>
export type AuthEntry = Static<typeof Auth>

/** The steps to a setting. */
export type ConfigPath = readonly (string | number)[]

type Broken = {
  at: ConfigPath
  expected: string
  /** What came, where showing the setting's value would not say it. Never a secret. */
  got?: string
}

/** Names settings that the schema allows and that still cannot mean what they say. */
export type Rule = Generator<Broken, void>
