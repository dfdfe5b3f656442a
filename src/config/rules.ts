/** Rules between settings, which the schema of the configuration file cannot say. */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import { canonicalUrl } from '../adcp/url.js'
import type { AuthEntry, ConfigFile } from './schema.js'

/** The key in a PEM text; undefined when it is none that webhooks can be signed with. */
export function readSigningKey(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem)
    const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
    return type === 'ed25519' || (type === 'ec' && details?.namedCurve === 'prime256v1') ? key : undefined
  } catch {
    return undefined // whatever is wrong with it, it is not such a key
  }
}

export type Steps = readonly (string | number)[]

/** What is wrong, as the steps to the setting and what was expected there. */
export function* brokenRules(file: ConfigFile): Generator<[Steps, string]> {
  function* auth(entry: AuthEntry | undefined, at: Steps): Generator<[Steps, string]> {
    if (entry?.type === 'bearer' && !entry.token) yield [[...at, 'token'], 'a token, as type is bearer']
    if (entry?.type === 'header' && !entry.name) yield [[...at, 'name'], 'a header name, as type is header']
    if (entry?.type === 'header' && !entry.value) yield [[...at, 'value'], 'a value, as type is header']
  }
  const upstreamIds = new Set<string>()
  for (const [index, upstream] of (file.upstreams ?? []).entries()) {
    if (upstream.id && upstreamIds.has(upstream.id)) {
      yield [['upstreams', index, 'id'], 'an id that no other upstream has']
    }
    if (upstream.id) upstreamIds.add(upstream.id)
    if (!canonicalUrl(upstream.url)) yield [['upstreams', index, 'url'], "an agent's url"]
    yield* auth(upstream.auth, ['upstreams', index, 'auth'])
  }
  for (const [index, network] of (file.egress?.allow_networks ?? []).entries()) {
    if (!ipaddr.isValidCIDR(network)) {
      yield [['egress', 'allow_networks', index], 'a network such as 127.0.0.0/8']
    }
  }
  const signingKey = file.webhooks?.signing_key?.private_key
  if (signingKey && !readSigningKey(signingKey)) {
    yield [['webhooks', 'signing_key', 'private_key'], 'an Ed25519 or P-256 private key in PEM']
  }
  const ids = new Set<string>()
  for (const [index, key] of (file.callers?.keys ?? []).entries()) {
    const at: Steps = ['callers', 'keys', index]
    if (ids.has(key.id)) yield [[...at, 'id'], 'an id that no other key has']
    ids.add(key.id)
    if (!key.token_sha256 && !file.callers?.jwt) {
      yield [[...at, 'token_sha256'], '64 hex digits, as callers.jwt is not configured']
    }
    for (const [name, entry] of Object.entries(key.credentials ?? {})) {
      yield* auth(entry, [...at, 'credentials', name])
    }
    for (const [place, grant] of (key.destinations ?? []).entries()) {
      const needed = grant.type === 'platform' ? 'platform' : 'agent_url'
      if (!grant[needed])
        yield [[...at, 'destinations', place, needed], `${needed}, as type is ${grant.type}`]
    }
  }
}
