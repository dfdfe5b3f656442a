/**
 * The configuration as the product uses it (docs/configuration.md): types, defaults, and the way from the file to
 * them.
 */

import { parseDuration } from '../adcp/duration.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Preview } from '../adcp/version.js'
import type { PolicySettings } from '../authz/rules/verdict.js'
import type { Rates } from '../feed/rates.js'
import type { Retention } from '../store/expiry.js'
import type { Auth } from '../upstreams/agent/agent.js'
import type { RosterPolicy } from '../upstreams/roster/roster.js'
import { type CallerSettings, toAuth, toCallers } from './callers.js'
import { type Limits, toLimits } from './limits.js'
import { toRetention } from './retention.js'
import type { ConfigFile } from './schema.js'
import { readSigningKey, type SigningKeySetting } from './signing-key.js'
import { DEFAULT_TIMES, defaultDrain } from './times.js'
import { writtenConfig } from './written-config.js'

export type Config = {
  file: string
  /** Names the content: the same file and environment give the same revision. */
  revision: string
  /** The file's content as YAML, without secrets. */
  shown: string
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
  /** The least severe lines of the log; undefined: by where it goes (operations/log.ts). */
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
    shown: writtenConfig(file),
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
