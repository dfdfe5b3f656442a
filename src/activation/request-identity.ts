/**
 * Decides whether two requests are the same, and derives the key that an upstream sees. Both are hashes of canonical
 * JSON (RFC 8785), so a retry through another replica, or after a restart, gives the same.
 */
import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { isRecord } from '../adcp/json.js'

/** Members about the transport of a request and not its content; a retry may have others. */
const TRAVEL = [
  'idempotency_key',
  'context',
  'context_id',
  'governance_context',
  'adcp_version',
  'adcp_major_version',
]

/**
 * JSON may hold what has no canonical form: half a surrogate pair, and a number beyond the range of doubles. They become what
 * storage keeps of them, U+FFFD and null.
 */
function canonicalParts(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map(canonicalParts)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), canonicalParts(member)]),
  )
}

/** Canonical JSON of a value that came as JSON. */
export function canonical(value: unknown): string {
  const text = canonicalize(canonicalParts(value))
  if (text === undefined) throw new Error('A value that is not JSON has no canonical form')
  return text
}

/** Equal for equal requests; the account is part of the request. */
export function fingerprint(request: Readonly<Record<string, unknown>>): string {
  const asked = Object.entries(request).filter(
    ([name, value]) => !TRAVEL.includes(name) && value !== undefined,
  )
  return hash('sha256', canonical(Object.fromEntries(asked)), 'base64url')
}

/**
 * Our key for one upstream call. The fingerprint is part of it: when a caller reuses a key that a refusal has freed,
 * the upstream sees another key. Upstreams never see callers' own keys.
 */
export function upstreamKey(caller: string, key: string, print: string, upstream: string): string {
  return `trb_${hash('sha256', canonical([caller, key, print, upstream]), 'base64url')}`
}
