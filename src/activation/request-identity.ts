/**
 * What makes two requests the same one, and the key under which an upstream sees what follows from a request.
 * Both are hashes of canonical JSON (RFC 8785), so a retry through another replica, or after a restart, agrees.
 */
import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** Members that say how a request travels and not what it asks for; a retry may carry others. */
const TRAVEL = [
  'idempotency_key',
  'context',
  'context_id',
  'governance_context',
  'adcp_version',
  'adcp_major_version',
]

/** Canonical JSON of a value that came as JSON. */
export function canonical(value: unknown): string {
  const text = canonicalize(value)
  if (text === undefined) throw new Error('A value that is not JSON has no canonical form')
  return text
}

/** Equal for equal requests, the account among what they ask for. */
export function fingerprint(request: Readonly<Record<string, unknown>>): string {
  const asked = Object.entries(request).filter(
    ([name, value]) => !TRAVEL.includes(name) && value !== undefined,
  )
  return hash('sha256', canonical(Object.fromEntries(asked)), 'base64url')
}

/**
 * Our key for one upstream call. It covers the fingerprint, so that a key which became free after a refusal and is
 * used for another request is another key upstream too; callers' own keys are not shown to upstreams.
 */
export function upstreamKey(caller: string, key: string, print: string, upstream: string): string {
  return `trb_${hash('sha256', canonical([caller, key, print, upstream]), 'base64url')}`
}
