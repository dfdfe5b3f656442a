/** The callers of a configuration, with their accounts and credentials bound to upstreams. */
import type { AccountReference } from '../adcp/caller.js'
import { nearest } from '../adcp/nearest.js'
import type { Destination } from '../adcp/signal.js'
import { agentUrlOf } from '../adcp/url.js'
import type { Jwk } from '../signing/key.js'
import type { Auth } from '../upstreams/agent/agent.js'
import type { AuthEntry, ConfigFile } from './schema.js'

/**
 * Which upstream a caller's `accounts` and `credentials` mean. A name is bound to one canonical url when the
 * configuration is read, so that no agent that appears later can take it (docs/decisions.md#identity).
 */
export type UpstreamNames = {
  /** The canonical url that is meant; undefined when the name is neither a configured upstream's id nor a url. */
  agentUrl(name: string): string | undefined
  /** The names that were probably meant, nearest first. */
  near(name: string): string[]
}

/** A url without its scheme, as somebody who names a host would write it. */
function bare(url: string): string {
  return url.replace(/^https?:\/\//, '')
}

export function upstreamNames(upstreams: ConfigFile['upstreams'] = []): UpstreamNames {
  const byId = new Map(upstreams.flatMap(({ id, url }) => (id === undefined ? [] : [[id, url] as const])))
  const spoken = new Map(upstreams.map(({ id, url }) => [id ?? bare(url), id ?? url]))
  return {
    agentUrl: (name) => agentUrlOf(byId.get(name) ?? name),
    near: (name) => nearest(name, spoken.keys()).map((word) => spoken.get(word) ?? word),
  }
}

/** Undefined for `type: none`. */
export function toAuth(entry: AuthEntry | undefined): Auth | undefined {
  if (entry?.type === 'bearer') return { type: 'bearer', token: entry.token ?? '' }
  if (entry?.type === 'header') return { type: 'header', name: entry.name ?? '', value: entry.value ?? '' }
  return undefined
}

type CallerEntry = NonNullable<NonNullable<ConfigFile['callers']>['keys']>[number]
type SigningEntry = NonNullable<CallerEntry['signing']>

export type CallerKey = {
  id: string
  /** Absent: the caller comes with a JWT whose `sub` is the id. */
  tokenSha256?: string
  role: 'buyer' | 'operator'
  destinations: readonly Destination[]
  /** The caller's account -> an upstream's canonical url -> that upstream's account reference. */
  accounts: Readonly<Record<string, Readonly<Record<string, AccountReference>>>>
  /** An upstream's canonical url -> the caller's own credential there. */
  credentials: Readonly<Record<string, Auth>>
  /** How the caller signs its requests; absent when it does not. */
  signing?: {
    source: { keys: readonly Jwk[] } | { url: string }
    required: boolean
    /** Ids of keys that are no longer to be trusted, though the key set may still have them. */
    revoked: readonly string[]
  }
}

export type CallerSettings = {
  anonymous: 'deny' | 'metadata'
  keys: CallerKey[]
  jwt: { issuer: string; audience: string; jwksUrl: string } | undefined
  rateLimit: { perSecond: number; burst: number }
}

/** By canonical url instead of by name; the rules of the file have refused what means no upstream. */
function bound<T>(byName: Readonly<Record<string, T>> = {}, names: UpstreamNames): Record<string, T> {
  return Object.fromEntries(
    Object.entries(byName).flatMap(([name, value]) => {
      const agentUrl = names.agentUrl(name)
      return agentUrl === undefined ? [] : [[agentUrl, value]]
    }),
  )
}

function toSigning({ jwks, jwks_url: url = '', required = false, revoked = [] }: SigningEntry) {
  return { source: jwks ? { keys: jwks.keys } : { url }, required, revoked }
}

export function toCallers({ callers = {}, upstreams }: ConfigFile): CallerSettings {
  const names = upstreamNames(upstreams)
  return {
    anonymous: callers.anonymous ?? 'deny',
    keys: (callers.keys ?? []).map((key) => ({
      id: key.id,
      ...(key.token_sha256 && { tokenSha256: key.token_sha256.toLowerCase() }),
      role: key.role ?? 'buyer',
      ...(key.signing && { signing: toSigning(key.signing) }),
      destinations: (key.destinations ?? []) as Destination[],
      accounts: Object.fromEntries(
        Object.entries(key.accounts ?? {}).map(([account, references]) => [
          account,
          bound(references, names),
        ]),
      ),
      credentials: Object.fromEntries(
        Object.entries(bound(key.credentials, names)).flatMap(([agentUrl, entry]) => {
          const auth = toAuth(entry)
          return auth ? [[agentUrl, auth]] : []
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

/**
 * The layer of the feed that an account of a caller is read from. Account ids are the caller's own words: two
 * callers may use one word for different accounts, so the layer's name holds both.
 */
export function overlayName(callerId: string, accountId: string): string {
  return JSON.stringify([callerId, accountId])
}

/** The caller with the account of that name, and the caller's own id for it. */
export function accountNamed(name: string): [caller: string, account: string] {
  return JSON.parse(name) as [string, string]
}
