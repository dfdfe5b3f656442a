/**
 * The configuration as the product uses it (docs/configuration.md): types, defaults, and the way from the file to them. With
 * it goes what operators may look at: the file as it says it, without secrets, and with urls that have no user, password or
 * credentials in their query.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { stringify } from 'yaml'
import type { Preview } from '../adcp/answer.js'
import { isRecord } from '../adcp/json.js'
import { redacted, shownUrl } from '../adcp/redaction.js'
import { canonicalUrl } from '../adcp/url.js'
import type { PolicySettings } from '../authz/rules/verdict.js'
import type { Rates } from '../feed/query.js'
import type { Retention } from '../store/retention.js'
import type { Auth } from '../upstreams/agent/agent.js'
import type { RosterPolicy } from '../upstreams/roster/roster.js'
import { type CallerSettings, toAuth, toCallers } from './callers.js'
import {
  DEFAULT_TIMES,
  defaultDrain,
  type Limits,
  parseDuration,
  toLimits,
  toRetention,
} from './quantities.js'
import type { ConfigFile } from './schema.js'

const SECRET_MARK = '[secret]'
/** Members whose value is a secret, or proves one, at any depth. */
const SECRETS = new Set(['token', 'token_sha256', 'value', 'private_key', 'signing_key', 'jwks'])
/** Members whose own members all may be secrets: headers, whose names people need not keep to. */
const HOLDERS = new Set(['headers'])

type SigningKeySetting = { keyId: string; privateKey: KeyObject }

/** What the configuration file holds: a JSON Web Key as text, or an id with a key in PEM. */
type SigningKeyEntry = string | { id: string; private_key: string }

function isOfWebhookProfile(key: KeyObject): boolean {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  return type === 'ed25519' || (type === 'ec' && details?.namedCurve === 'prime256v1')
}

function keyIn(entry: SigningKeyEntry): SigningKeySetting | undefined {
  if (typeof entry !== 'string') {
    return { keyId: entry.id, privateKey: createPrivateKey(entry.private_key) }
  }
  const key = JSON.parse(entry) as { kid?: unknown }
  if (typeof key.kid !== 'string' || key.kid === '') return undefined
  return { keyId: key.kid, privateKey: createPrivateKey({ key, format: 'jwk' }) }
}

/** Undefined when it is no private Ed25519 or P-256 key with an id: the algorithms of the webhook profile. */
export function readSigningKey(entry: SigningKeyEntry): SigningKeySetting | undefined {
  try {
    const found = keyIn(entry)
    return found && isOfWebhookProfile(found.privateKey) ? found : undefined
  } catch {
    return undefined // whatever is wrong with it, it is not such a key
  }
}

function isSecret(name: string, parent: string): boolean {
  return SECRETS.has(name) || HOLDERS.has(parent) || (parent === 'storage' && name === 'key')
}

function shownSetting(value: unknown, name: string, parent: string): unknown {
  if (isSecret(name, parent)) return SECRET_MARK
  if (typeof value === 'string') return URL.canParse(value) ? shownUrl(value) : redacted(value)
  if (Array.isArray(value)) return value.map((each) => shownSetting(each, '', name))
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, held]) => [key, shownSetting(held, key, name)]))
}

/** Gives YAML. Variables of the environment are filled in, as the server uses them. */
function writtenConfig(file: ConfigFile): string {
  return stringify(shownSetting(file, '', ''), { lineWidth: 0 })
}

export type Config = {
  file: string
  /** Names the content: the same file and environment give the same revision. */
  revision: string
  /** The file's content as YAML, without secrets. Written when somebody looks. */
  shown(): string
  listen: {
    host: string
    port: number
    publicUrl: string | undefined
    /** How long the server still answers after it was told to stop and says that it is not ready. */
    drainMs: number
    /** Networks of proxies whose X-Forwarded-For is believed. */
    trustedProxies: readonly string[]
  }
  registries: { url: string; refreshMs: number; headers: Record<string, string> }[]
  upstreams: {
    id: string | undefined
    url: string
    protocol: 'mcp' | 'a2a' | undefined
    auth: Auth | undefined
    seeds: readonly string[]
    /** What becomes of prices that it gives for accounts only. */
    accountPrices: 'withheld' | 'public'
    exclude: boolean
    /** An operator's act names it by its url alone: it is called where registries list it. */
    asListed?: boolean
  }[]
  /** Which registry entries are federated; static upstreams always are. */
  discovery: RosterPolicy
  defaults: {
    timeoutMs: number
    refreshMs: number
    staleAfterMs: number
    dropAfterMs: number
    concurrency: number
    pageSize: number
    /** Whether an agent without a feed is also read by what buyers ask it. */
    seedsFromBriefs: boolean
  }
  authorization: PolicySettings & {
    refreshMs: number
    /** Provider domain -> the new pointer, canonical, that the operator knows to be right (docs/protocol.md#provider-files). */
    confirmedPointers: ReadonlyMap<string, string>
  }
  egress: {
    allowHttp: boolean
    allowNetworks: readonly string[]
    /** Non-public networks that a caller's webhook may name; `allowNetworks` is not for them. */
    webhookNetworks: readonly string[]
    hosts: Readonly<Record<string, string>>
  }
  /** What upstreams, registries, providers and callers may cost. */
  limits: Limits
  callers: CallerSettings
  /** Settings of events sent and received. What is absent is not declared in our capabilities. */
  events: {
    /** Where receivers find our keys: the `identity.brand_json_url` of our capabilities. */
    brandJsonUrl: string | undefined
    /** Where upstreams' webhooks reach us, without a trailing slash. */
    publicUrl: string | undefined
    /** Signs webhooks (RFC 9421); without it only receivers with legacy `authentication` are accepted. */
    signingKey: SigningKeySetting | undefined
  }
  /** The least severe lines of the log; undefined: `info`, and on a terminal `warn`. */
  logLevel: 'debug' | 'info' | 'warn' | 'error' | undefined
  /** `keys` encrypt kept secrets: the first writes, all of them read. */
  storage: { url: string; keys: readonly string[]; retention: Retention }
  /** Exchange rates, to compare prices in different currencies; without them, such prices are not compared. */
  rates: Rates | undefined
  sandbox: boolean
  /** Releases of the protocol that are not final and are served all the same. */
  previewReleases: readonly Preview[]
  /** Whether comply_test_controller is served, with which tests force states. */
  testController: boolean
}

/** The key of `events`, or of `webhooks`, which held it in earlier releases. */
function signingKeyOf({ events, webhooks }: ConfigFile): SigningKeySetting | undefined {
  const entry = events?.signing_key ?? webhooks?.signing_key
  return entry === undefined ? undefined : readSigningKey(entry)
}

function toEvents(file: ConfigFile): Config['events'] {
  const { brand_json_url: brandJsonUrl, public_url: publicUrl } = file.events ?? {}
  return { brandJsonUrl, publicUrl: publicUrl?.replace(/\/$/, ''), signingKey: signingKeyOf(file) }
}

function toRates({ as_of: asOf, in: measure = 'USD', rates }: NonNullable<ConfigFile['currencies']>): Rates {
  return { asOf, worth: new Map([...Object.entries(rates), [measure, 1]]) }
}

function toStorage({ url = 'file:./data', key = [], retention }: ConfigFile['storage'] = {}) {
  return { url, keys: typeof key === 'string' ? [key] : key, retention: toRetention(retention) }
}

/** The configuration as the product uses it: milliseconds, and every default of docs/configuration.md filled in. */
export function toConfig(path: string, revision: string, file: ConfigFile): Config {
  const { listen, discovery, defaults, authorization, egress } = file
  const providers = Object.entries(authorization?.providers ?? {})
  const storage = toStorage(file.storage)
  const times = { ...DEFAULT_TIMES, ...defaults }
  return {
    file: path,
    revision,
    shown: () => writtenConfig(file),
    listen: {
      host: listen?.host ?? '127.0.0.1',
      port: listen?.port ?? 8080,
      publicUrl: listen?.public_url?.replace(/\/$/, ''),
      drainMs: parseDuration(listen?.drain ?? defaultDrain(storage.url)),
      trustedProxies: listen?.trusted_proxies ?? [],
    },
    registries: (file.registries ?? []).map(({ url, refresh, headers }) => ({
      url: url.replace(/\/$/, ''),
      refreshMs: parseDuration(refresh ?? '5m'),
      headers: headers ?? {},
    })),
    upstreams: (file.upstreams ?? []).map(({ id, url, protocol, auth, seeds, account_prices, exclude }) => ({
      id,
      url,
      protocol,
      auth: toAuth(auth),
      seeds: seeds ?? [],
      accountPrices: account_prices ?? 'withheld',
      exclude: exclude ?? false,
    })),
    discovery: {
      ...(discovery?.include && { include: discovery.include }),
      ...(discovery?.exclude && { exclude: discovery.exclude }),
      verifiedOnly: discovery?.verified_only ?? false,
    },
    defaults: {
      timeoutMs: parseDuration(times.timeout),
      refreshMs: parseDuration(times.refresh),
      staleAfterMs: parseDuration(times.stale_after),
      dropAfterMs: parseDuration(times.drop_after),
      concurrency: defaults?.concurrency ?? 4,
      pageSize: defaults?.page_size ?? 100,
      seedsFromBriefs: defaults?.seeds_from_briefs ?? true,
    },
    authorization: {
      policy: authorization?.policy ?? 'strict',
      refreshMs: parseDuration(authorization?.refresh ?? '6h'),
      providers: Object.fromEntries(
        providers.flatMap(([domain, { policy }]) => (policy ? [[domain.toLowerCase(), { policy }]] : [])),
      ),
      confirmedPointers: new Map(
        providers.flatMap(([domain, { confirm_pointer }]) =>
          confirm_pointer ? [[domain.toLowerCase(), canonicalUrl(confirm_pointer) ?? confirm_pointer]] : [],
        ),
      ),
    },
    egress: {
      allowHttp: egress?.allow_http ?? false,
      allowNetworks: egress?.allow_networks ?? [],
      webhookNetworks: egress?.webhook_networks ?? [],
      hosts: egress?.hosts ?? {},
    },
    limits: toLimits(file.limits),
    callers: toCallers(file),
    events: toEvents(file),
    logLevel: file.log?.level,
    storage,
    rates: file.currencies && toRates(file.currencies),
    sandbox: file.sandbox ?? false,
    previewReleases: file.preview_releases ?? [],
    testController: file.test_controller ?? false,
  }
}
