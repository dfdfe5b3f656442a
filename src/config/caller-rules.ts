/** Rules on callers: keys that nobody can use, and names that mean no upstream. */
import { canonicalUrl } from '../adcp/url.js'
import { isUsable } from '../signing/key.js'
import { ALGORITHMS, REQUESTS } from '../signing/profile.js'
import { type UpstreamNames, upstreamNames } from './callers.js'
import { calledUrlRule } from './place-rules.js'
import type { ConfigPath, Rule } from './problem.js'
import type { ConfigFile } from './schema.js'
import { authRules } from './upstream-rules.js'

const ANONYMOUS = 'anonymous'

function* boundNames(named: Readonly<Record<string, unknown>>, names: UpstreamNames, at: ConfigPath): Rule {
  const bound = new Map<string, string>()
  for (const name of Object.keys(named)) {
    const agentUrl = names.agentUrl(name)
    const got = JSON.stringify(name)
    const known = agentUrl === undefined ? undefined : bound.get(agentUrl)
    if (agentUrl === undefined) {
      const near = names.near(name).map((one) => JSON.stringify(one))
      const meant = near.length > 0 ? `; did you mean ${near.join(' or ')}?` : ''
      yield {
        at: [...at, name],
        expected: "the id of one of upstreams[], or an agent's url",
        got: got + meant,
      }
    } else if (known !== undefined) {
      yield { at: [...at, name], expected: `an upstream that ${JSON.stringify(known)} does not name`, got }
    } else bound.set(agentUrl, name)
  }
}

type Signing = NonNullable<NonNullable<ConfigFile['callers']>['keys']>[number]['signing']

/** Keys that can sign requests, each with an id that no other key of the file has. */
function* signingRules(signing: Signing, seen: Set<string>, at: ConfigPath): Rule {
  if (!signing) return
  const { jwks, jwks_url: url } = signing
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

type Grant = NonNullable<
  NonNullable<NonNullable<ConfigFile['callers']>['keys']>[number]['destinations']
>[number]

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
    yield* signingRules(key.signing, keyIds, [...at, 'signing'])
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
