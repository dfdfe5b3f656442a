/**
 * The configuration as the product uses it (docs/configuration.md): types, defaults, and the way from the file to
 * them.
 */
import type { KeyObject } from 'node:crypto'
import type { AccountReference } from '../adcp/account.js'
import type { Destination } from '../adcp/signal.js'
import type { PolicySettings } from '../authz/rules/policy.js'
import type { RosterPolicy } from '../upstreams/roster/roster.js'
import { readSigningKey } from './rules.js'
import type { AuthEntry, ConfigFile } from './schema.js'

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

export type Auth = { type: 'bearer'; token: string } | { type: 'header'; name: string; value: string }

export type Config = {
  file: string
  /** Names the content: the same file and environment give the same revision. */
  revision: string
  listen: { host: string; port: number; publicUrl: string | undefined }
  registries: { url: string; refreshMs: number; headers: Record<string, string> }[]
  upstreams: {
    id: string | undefined
    url: string
    protocol: 'mcp' | 'a2a' | undefined
    auth: Auth | undefined
    seeds: readonly string[]
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
  }
  authorization: PolicySettings & {
    refreshMs: number
    /** Provider domain -> the new pointer that the operator knows to be right (docs/protocol.md#provider-files). */
    confirmedPointers: ReadonlyMap<string, string>
  }
  egress: { allowHttp: boolean; allowNetworks: readonly string[]; hosts: Readonly<Record<string, string>> }
  callers: {
    anonymous: 'deny' | 'metadata'
    keys: CallerKey[]
    jwt: { issuer: string; audience: string; jwksUrl: string } | undefined
    rateLimit: { perSecond: number; burst: number }
  }
  /** Signs webhooks (RFC 9421); without it only receivers with legacy `authentication` are accepted. */
  webhookKey: { keyId: string; privateKey: KeyObject } | undefined
  storage: { url: string }
  sandbox: boolean
}

export type CallerKey = {
  id: string
  /** Absent: the caller comes with a JWT whose `sub` is the id. */
  tokenSha256?: string
  role: 'buyer' | 'operator'
  destinations: readonly Destination[]
  /** The caller's account -> upstream id -> that upstream's account reference. */
  accounts: Readonly<Record<string, Readonly<Record<string, AccountReference>>>>
  /** Upstream id -> the caller's own credential there. */
  credentials: Readonly<Record<string, Auth>>
}

/** Milliseconds of `250ms`, `30s`, `5m`, `24h`, `7d`; the schema has checked the form. */
function durationMs(text: string): number {
  const [, amount, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? []
  return Number(amount) * (UNIT_MS[unit ?? ''] ?? Number.NaN)
}

function toAuth(entry: AuthEntry | undefined): Auth | undefined {
  if (entry?.type === 'bearer') return { type: 'bearer', token: entry.token ?? '' }
  if (entry?.type === 'header') return { type: 'header', name: entry.name ?? '', value: entry.value ?? '' }
  return undefined
}

function toCallers(callers: ConfigFile['callers'] = {}): Config['callers'] {
  return {
    anonymous: callers.anonymous ?? 'deny',
    keys: (callers.keys ?? []).map((key) => ({
      id: key.id,
      ...(key.token_sha256 && { tokenSha256: key.token_sha256.toLowerCase() }),
      role: key.role ?? 'buyer',
      destinations: (key.destinations ?? []) as Destination[],
      accounts: key.accounts ?? {},
      credentials: Object.fromEntries(
        Object.entries(key.credentials ?? {}).flatMap(([id, entry]) => {
          const auth = toAuth(entry)
          return auth ? [[id, auth]] : []
        }),
      ),
    })),
    jwt: callers.jwt && {
      issuer: callers.jwt.issuer,
      audience: callers.jwt.audience,
      jwksUrl: callers.jwt.jwks_url,
    },
    rateLimit: {
      perSecond: callers.rate_limit?.per_second ?? 2_000,
      burst: callers.rate_limit?.burst ?? 4_000,
    },
  }
}

function toWebhookKey(webhooks: ConfigFile['webhooks']): Config['webhookKey'] {
  const { id, private_key } = webhooks?.signing_key ?? {}
  const privateKey = private_key && readSigningKey(private_key)
  return id && privateKey ? { keyId: id, privateKey } : undefined
}

/** The configuration as the product uses it: milliseconds, and every default of docs/configuration.md filled in. */
export function toConfig(path: string, revision: string, file: ConfigFile): Config {
  const { listen, discovery, defaults, authorization, egress } = file
  const providers = Object.entries(authorization?.providers ?? {})
  return {
    file: path,
    revision,
    listen: {
      host: listen?.host ?? '127.0.0.1',
      port: listen?.port ?? 8080,
      publicUrl: listen?.public_url?.replace(/\/$/, ''),
    },
    registries: (file.registries ?? []).map(({ url, refresh, headers }) => ({
      url: url.replace(/\/$/, ''),
      refreshMs: durationMs(refresh ?? '5m'),
      headers: headers ?? {},
    })),
    upstreams: (file.upstreams ?? []).map(({ id, url, protocol, auth, seeds, exclude }) => ({
      id,
      url,
      protocol,
      auth: toAuth(auth),
      seeds: seeds ?? [],
      exclude: exclude ?? false,
    })),
    discovery: {
      ...(discovery?.include && { include: discovery.include }),
      ...(discovery?.exclude && { exclude: discovery.exclude }),
      verifiedOnly: discovery?.verified_only ?? false,
    },
    defaults: {
      timeoutMs: durationMs(defaults?.timeout ?? '30s'),
      refreshMs: durationMs(defaults?.refresh ?? '5m'),
      staleAfterMs: durationMs(defaults?.stale_after ?? '1h'),
      dropAfterMs: durationMs(defaults?.drop_after ?? '24h'),
      concurrency: defaults?.concurrency ?? 4,
      pageSize: defaults?.page_size ?? 100,
    },
    authorization: {
      policy: authorization?.policy ?? 'strict',
      refreshMs: durationMs(authorization?.refresh ?? '6h'),
      providers: Object.fromEntries(
        providers.flatMap(([domain, { policy }]) => (policy ? [[domain.toLowerCase(), { policy }]] : [])),
      ),
      confirmedPointers: new Map(
        providers.flatMap(([domain, { confirm_pointer }]) =>
          confirm_pointer ? [[domain.toLowerCase(), confirm_pointer]] : [],
        ),
      ),
    },
    egress: {
      allowHttp: egress?.allow_http ?? false,
      allowNetworks: egress?.allow_networks ?? [],
      hosts: egress?.hosts ?? {},
    },
    callers: toCallers(file.callers),
    webhookKey: toWebhookKey(file.webhooks),
    storage: { url: file.storage?.url ?? 'file:./data' },
    sandbox: file.sandbox ?? false,
  }
}
