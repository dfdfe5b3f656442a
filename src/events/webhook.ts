/**
 * Delivers one webhook, once (specification, "Events"). Retrying is the task's matter: it outlives the process, and the
 * body, idempotency_key included, stays the same however often it is sent (docs/protocol.md#requests).
 */
import { createHmac, randomBytes } from 'node:crypto'
import { within } from '../net/clock.js'
import { createAddressPolicy, type Resolve, systemResolve } from '../net/connect.js'
import type { EgressPolicy } from '../net/egress.js'
import type { Send, SendFailure } from '../net/send.js'
import type { Signer } from '../signing/sign.js'
import type { PushConfig } from './push-config.js'

const LOOKUP_MS = 5_000 // a name that nobody answers for must not hold the request that carries it

/** Where callers' webhooks may go: public https, and `egress.webhook_networks`. */
export function webhookPolicy({ webhookNetworks }: { webhookNetworks: readonly string[] }): EgressPolicy {
  return { allowHttp: false, allowNetworks: webhookNetworks, hosts: {} }
}

type TargetCheckOptions = { resolve?: Resolve; lookupMs?: number }

/**
 * Whether a webhook could be delivered at all, asked before its task or subscription is accepted: the same guard that every
 * request passes (docs/protocol.md#egress), without sending one. An address that a caller names has rules of its own: what the
 * operator opened for upstreams, or routes elsewhere, is not for it. The current policy is asked for each time, because the
 * configuration can be reloaded.
 */
export function createTargetCheck(
  policy: () => Pick<EgressPolicy, 'allowHttp' | 'allowNetworks'>,
  { resolve = systemResolve, lookupMs = LOOKUP_MS }: TargetCheckOptions = {},
) {
  return async (target: string): Promise<SendFailure | undefined> => {
    const url = URL.canParse(target) ? new URL(target) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'refused'
    const scheme = url.protocol
    const { permits } = createAddressPolicy(policy())
    try {
      const asked = resolve(url.hostname.replace(/^\[|\]$/g, ''))
      const found = await within(asked, { timeoutMs: lookupMs }, () => undefined)
      if (!found) return 'unresolvable'
      return found.some(({ address }) => permits(address, scheme)) ? undefined : 'refused'
    } catch {
      return 'unresolvable' // which of the resolver's reasons it was changes nothing for the caller
    }
  }
}

/**
 * The headers of one delivery under the shared-secret scheme that the caller registered instead of signatures. The
 * registration alone decides which of the two is used, never both (schema core/push-notification-config).
 */
function legacyHeaders(
  { schemes, credentials }: NonNullable<PushConfig['authentication']>,
  body: string,
  nowMs: number,
): Record<string, string> {
  const base = { 'content-type': 'application/json' }
  if (schemes[0] === 'Bearer') return { ...base, authorization: `Bearer ${credentials}` }
  const timestamp = String(Math.floor(nowMs / 1_000))
  const digest = createHmac('sha256', credentials).update(`${timestamp}.${body}`).digest('hex')
  return { ...base, 'x-adcp-timestamp': timestamp, 'x-adcp-signature': `sha256=${digest}` }
}

const TIMEOUT_MS = 10_000
const MAX_REPLY_BYTES = 64 * 1024
const NONCE_BYTES = 16

/** Statuses that a later try may change: not yet, too fast, not now. */
const TRY_AGAIN = new Set([408, 409, 425, 429])
const SIGNATURE_ERROR = /^Signature\s+error="(webhook_[a-z_]+)"/i

export type WebhookOutcome =
  | { kind: 'delivered' }
  /** Worth another try. */
  | { kind: 'undelivered'; reason: string; retryAfterMs?: number }
  /** No further try will do better; `signature`: the protocol's word for what the receiver has against ours. */
  | { kind: 'rejected'; reason: string; status?: number; signature?: string }

type WebhookOptions = {
  send: Send
  now(): number
  /** Absent: only configurations with `authentication` were accepted. */
  signer?: Signer
}

function retryAfter(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) * 1_000 : undefined
}

/**
 * Sends in the way that the receiver asked for: with its own `authentication`, otherwise signed by `signer` (RFC 9421). Rejects
 * when there is neither.
 */
export function createWebhook({ send, now, signer }: WebhookOptions) {
  function headersFor({ url, authentication }: PushConfig, body: string): Record<string, string> {
    if (authentication) return legacyHeaders(authentication, body, now())
    if (!signer) throw new Error('webhook: accepted without authentication and without a signing key')
    return signer(url, body, now(), randomBytes(NONCE_BYTES).toString('base64url'))
  }

  /** Sends `body` to the configured url; `headers` are sent in addition to those that authenticate it. */
  return async (
    config: PushConfig,
    body: string,
    headers: Record<string, string> = {},
  ): Promise<WebhookOutcome> => {
    const outcome = await send({
      url: new URL(config.url).href,
      method: 'POST',
      headers: { ...headersFor(config, body), ...headers },
      body,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_REPLY_BYTES,
    })
    if (outcome.kind === 'failed') {
      const { reason } = outcome
      return reason === 'refused' ? { kind: 'rejected', reason } : { kind: 'undelivered', reason }
    }
    const { status, headers: answered } = outcome
    if (status >= 200 && status < 300) return { kind: 'delivered' }
    if (status < 500 && !TRY_AGAIN.has(status)) {
      const [, signature] = SIGNATURE_ERROR.exec(answered['www-authenticate'] ?? '') ?? []
      return { kind: 'rejected', reason: `status ${status}`, status, ...(signature && { signature }) }
    }
    const retryAfterMs = retryAfter(answered['retry-after'])
    return {
      kind: 'undelivered',
      reason: `status ${status}`,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    }
  }
}

export type Webhook = ReturnType<typeof createWebhook>
