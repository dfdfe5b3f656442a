/** The protocol's published signature vectors, where somebody put them beside the repository; no copy of them is kept. */
import type { JsonWebKey } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Jwk } from '../../src/signing/key.js'

const up = '../'.repeat(3)
const here = dirname(fileURLToPath(import.meta.url))
const PLACES = [resolve(here, up, '../shared/adcp/vectors'), resolve(here, up, '../../shared/adcp/vectors')]

export type Vector = {
  file: string
  name: string
  reference_now: number
  request: { method: string; url: string; headers: Record<string, string>; body?: string }
  verifier_capability?: {
    covers_content_digest?: 'required' | 'forbidden' | 'either'
    required_for?: string[]
    protocol_methods_required_for?: string[]
  }
  jwks_ref?: string[]
  jwks_override?: Record<string, unknown>
  expected_signature_base?: string
  expected_outcome: { success: boolean; error_code?: string }
  test_harness_state?: {
    replay_cache_entries?: { keyid: string; nonce: string }[]
    replay_cache_per_keyid_cap_hit?: { keyid: string }
    per_keyid_cap_filled_for?: string
    revocation_list?: { revoked_kids: string[] }
    revoked_kids?: string[]
    revocation_list_stale_seconds?: number
  }
}

/** Undefined, and said on the test's output, when they are not there. */
const VECTORS = PLACES.find((place) => existsSync(place))
export const SKIP = VECTORS === undefined && 'the published vectors are not beside the repository'

const read = (...path: string[]) => JSON.parse(readFileSync(join(VECTORS as string, ...path), 'utf8'))

/** All vectors of a profile: `positive` or `negative`. */
export function vectorsOf(profile: string, sort: string): Vector[] {
  const files = readdirSync(join(VECTORS as string, profile, sort)).sort()
  return files.map((file) => ({ file: `${profile}/${sort}/${file}`, ...read(profile, sort, file) }))
}

export function canonicalCases(): {
  input_url: string
  expected_target_uri?: string
  expected_authority?: string
  reject?: boolean
}[] {
  return read('request-signing', 'canonicalization.json').cases
}

/** The keys that a vector's verifier knows. */
export function keysOf(profile: string, { jwks_ref, jwks_override }: Vector): Jwk[] {
  const all = read(profile, 'keys.json').keys as Jwk[]
  const referred = all.filter(({ kid }) => jwks_ref?.includes(kid as string))
  if (!jwks_override) return referred
  return (jwks_override.keys ?? Object.values(jwks_override)) as Jwk[]
}

/** The published private halves, which are good for nothing but tests. */
export function privateKeys(profile: string): (JsonWebKey & { kid: string })[] {
  type Published = JsonWebKey & { kid: string; _private_d_for_test_only?: string }
  return (read(profile, 'keys.json').keys as Published[]).map(({ _private_d_for_test_only: d, ...jwk }) => ({
    ...jwk,
    ...(d !== undefined && { d }),
  }))
}
