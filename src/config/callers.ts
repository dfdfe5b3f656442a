/**
 * The callers of a configuration, with their accounts and credentials bound to upstreams, and the rules on them: keys that
 * nobody can use, and names that mean no upstream.
 */
import type { AccountReference } from '../adcp/caller.js'
import { nearest } from '../adcp/issue-words.js'
import type { Destination } from '../adcp/signal.js'
import { canonicalUrl, configuredAgentUrl, holdsCredential } from '../adcp/url.js'
import { ALGORITHMS, isUsable, type Jwk } from '../signing/key.js'
import { REQUESTS } from '../signing/signature.js'
import type { Auth } from '../upstreams/agent/agent.js'
import { authRules, calledUrlRule } from './address-rules.js'
import type { AuthEntry, ConfigFile, ConfigPath, Rule } from './schema.js'

const ANONYMOUS = 'anonymous'

/**
 * Which upstream a caller's `accounts` and `credentials` mean. A name is bound to one canonical url when the
 * configuration is read, so that no agent that appears later can take it (docs/decisions.md#identity).
 */
type UpstreamNames = {
  /** The agent's url; undefined when the name is no configured upstream's id or url, and no url by which an agent is known. */
  agentUrl(name: string): string | undefined
  /** The names that were probably meant, nearest first: ids, and of the others where they stand, as a url may hold a credential. */
  near(name: string): string[]
}

/** A url without its scheme, as somebody who names a host would write it. */
function bare(url: string): string {
  return url.replace(/^https?:\/\//, '')
}

function upstreamNames(upstreams: ConfigFile['upstreams'] = []): UpstreamNames {
  const byId = new Map(upstreams.flatMap(({ id, url }) => (id === undefined ? [] : [[id, url] as const])))
  const spoken = upstreams.map(({ id, url }, at): [string, string] =>
    id === undefined
      ? [bare(url).replace(/[?#].*/s, ''), `the url of upstreams[${at}]`]
      : [id, JSON.stringify(id)],
  )
  const words = new Map(spoken)
  return {
    agentUrl(name) {
      const url = canonicalUrl(name)
      const written = byId.get(name) ?? upstreams.find((upstream) => canonicalUrl(upstream.url) === url)?.url
      if (written !== undefined) return configuredAgentUrl(written)
      return url === undefined || holdsCredential(url) ? undefined : url
    },
    near: (name) => nearest(name, words.keys()).flatMap((word) => words.get(word) ?? []),
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
type Grant = NonNullable<CallerEntry['destinations']>[number]

export type CallerKey = {
  id: string
  /** In lower case. Absent: the caller comes with a JWT whose `sub` is the id. */
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

function* boundNames(named: Readonly<Record<string, unknown>>, names: UpstreamNames, at: ConfigPath): Rule {
  const bound = new Set<string>()
  for (const name of Object.keys(named)) {
    const agentUrl = names.agentUrl(name)
    if (agentUrl === undefined) {
      const near = names.near(name)
      const meant = near.length > 0 ? `; did you mean ${near.join(' or ')}?` : ''
      yield {
        at: [...at, name],
        expected: "the id of one of upstreams[], or an agent's url without a credential in its query",
        got: `another name${meant}`,
      }
    } else if (bound.has(agentUrl)) {
      const expected = 'an upstream that no other name here means'
      yield { at: [...at, name], expected, got: 'another name of one above' }
    } else bound.add(agentUrl)
  }
}

/** Keys that can sign requests, each with an id that no other key of the file has. */
function* signingRules({ jwks, jwks_url: url }: SigningEntry, seen: Set<string>, at: ConfigPath): Rule {
  if ((jwks === undefined) === (url === undefined)) {
    yield { at, expected: 'one of jwks and jwks_url', got: jwks ? 'both' : 'neither' }
  }
  for (const [index, key] of (jwks?.keys ?? []).entries()) {
    const place: ConfigPath = [...at, 'jwks', 'keys', index]
    if (!ALGORITHMS.some((algorithm) => isUsable(key, algorithm, REQUESTS.keyUses))) {
      const expected =
        'a public Ed25519 or P-256 key with alg, use sig, key_ops verify and adcp_use request-signing'
      yield { at: place, expected, got: 'another key' }
    } else if ('d' in key) yield { at: place, expected: 'a public key', got: 'a private one' }
    if (typeof key.kid !== 'string' || key.kid === '' || seen.has(key.kid)) {
      yield { at: [...place, 'kid'], expected: 'an id that no other key has' }
    }
    seen.add(String(key.kid))
  }
}

/** A destination that means one place, and that a deployment can be on. */
function* grantRules(grant: Grant, at: ConfigPath): Rule {
  const { type, agent_url: url } = grant
  const [needed, other] =
    type === 'platform' ? (['platform', 'agent_url'] as const) : (['agent_url', 'platform'] as const)
  if (!grant[needed]) yield { at: [...at, needed], expected: `${needed}, as type is ${type}` }
  if (grant[other] !== undefined) yield { at: [...at, other], expected: `no ${other}, as type is ${type}` }
  else if (url !== undefined && !canonicalUrl(url))
    yield { at: [...at, 'agent_url'], expected: "an agent's url" }
}

export function* callerRules({ callers, upstreams }: ConfigFile): Rule {
  const names = upstreamNames(upstreams)
  yield* calledUrlRule(callers?.jwt?.jwks_url, ['callers', 'jwt', 'jwks_url'])
  const ids = new Set<string>()
  const digests = new Set<string>()
  const keyIds = new Set<string>()
  for (const [index, key] of (callers?.keys ?? []).entries()) {
    const at: ConfigPath = ['callers', 'keys', index]
    if (key.id === ANONYMOUS)
      yield { at: [...at, 'id'], expected: 'another id: callers without a key go by it' }
    if (ids.has(key.id)) yield { at: [...at, 'id'], expected: 'an id that no other key has' }
    ids.add(key.id)
    const digest = key.token_sha256?.toLowerCase()
    yield* calledUrlRule(key.signing?.jwks_url, [...at, 'signing', 'jwks_url'])
    if (key.signing) yield* signingRules(key.signing, keyIds, [...at, 'signing'])
    if (!digest && !callers?.jwt && !key.signing) {
      yield {
        at: [...at, 'token_sha256'],
        expected: '64 hex digits, as callers.jwt is not configured and it signs nothing',
      }
    }
    if (digest && digests.has(digest)) {
      yield { at: [...at, 'token_sha256'], expected: 'a token that no other key has' }
    }
    if (digest) digests.add(digest)
    for (const [account, references] of Object.entries(key.accounts ?? {})) {
      yield* boundNames(references, names, [...at, 'accounts', account])
    }
    yield* boundNames(key.credentials ?? {}, names, [...at, 'credentials'])
    for (const [name, entry] of Object.entries(key.credentials ?? {})) {
      yield* authRules(entry, [...at, 'credentials', name])
    }
    for (const [place, grant] of (key.destinations ?? []).entries()) {
      yield* grantRules(grant, [...at, 'destinations', place])
    }
  }
}
