/**
 * Reads one registry's listing of signals agents (specification, "Registry listing"; docs/protocol.md#registry):
 * conditional and bounded.
 */
import type { Send } from '../../net/send.js'
import { readRegistry } from '../agent/reader.js'
import { secretsShown } from '../agent/said.js'
import type { UpstreamFailure } from '../agent/status.js'
import { networkFailure, statusFailure } from '../agent/transport/rpc.js'
import type { RegistryListing } from '../rows/registry-records.js'

const MAX_BYTES = 32 * 1024 * 1024
const TIMEOUT_MS = 30_000

export type RegistryOutcome =
  | { kind: 'listed'; listing: RegistryListing }
  | { kind: 'unchanged' }
  | { kind: 'failed'; reason: UpstreamFailure; message: string; retryAfterMs?: number }

type RegistryOptions = {
  send: Send
  url: string
  headers: Readonly<Record<string, string>>
  now(): number
}

/** Of one registry; it keeps nothing between two requests. */
export function createRegistry({ send, url, headers, now }: RegistryOptions) {
  const address = `${url.replace(/\/+$/, '')}/api/registry/agents?type=signals&health=true&compliance=true`
  const secrets = secretsShown(Object.values(headers), url)

  /** Asks once; `held` is what an earlier call listed, and makes the request conditional. */
  async function fetch(held: RegistryListing | undefined): Promise<RegistryOutcome> {
    const reply = await send({
      url: address,
      headers: { accept: 'application/json', ...headers, ...(held?.etag && { 'if-none-match': held.etag }) },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      redirects: 'same-site',
    })
    if (reply.kind === 'failed') return networkFailure(reply)
    if (reply.status === 304 && held) return { kind: 'unchanged' }
    const failure = statusFailure(reply)
    if (failure) return failure
    const listing = reply.status === 200 ? await readRegistry(url, reply.body, secrets) : undefined
    if (!listing) {
      return {
        kind: 'failed',
        reason: 'protocol_error',
        message: `HTTP ${reply.status} is no registry listing`,
      }
    }
    const { etag } = reply.headers
    return { kind: 'listed', listing: { ...listing, fetchedAt: now(), ...(etag && { etag }) } }
  }

  return { fetch }
}
