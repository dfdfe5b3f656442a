/**
 * One webhook: how a caller asks for it, where it may go, and one delivery (schema core/push-notification-config; specification,
 * "Events"). A configuration that cannot be honoured is refused when it is sent, never accepted in silence. Retrying is the task's
 * matter: it outlives the process, and the body, idempotency_key included, stays the same however often it is sent
 * (docs/protocol.md#requests).
 */
import { createHmac } from 'node:crypto'
import type { AdcpError } from '../adcp/answer.js'
import { isRecord } from '../adcp/json.js'
import { compileCheck, invalidRequest, type Static, Type, type Violation } from '../adcp/schema.js'
import { createAddressPolicy, type Resolve } from '../net/addresses.js'
import { callersResolve } from '../net/callers-names.js'
import { within } from '../net/clock.js'
import type { EgressPolicy } from '../net/routes.js'
import { askedWaitMs, type SendFailure } from '../net/send.js'
import type { Letter, Post } from './letter.js'

const TIMEOUT_MS = 10_000
const LOOKUP_MS = 5_000 // a name that nobody answers for must not hold the request that carries it
const MAX_REPLY_BYTES = 64 * 1024 // of what is read on the way to the end of a reply; nobody looks at it
/** Statuses that a later try may change: not yet, too fast, not now. */
const TRY_AGAIN = new Set([408, 409, 425, 429])
const SIGNATURE_ERROR = /^Signature\s+error="(webhook_[a-z_]+)"/i
/** That our keys, or what was signed before, cannot be read now. All else that is said of a signature is final. */
const NOT_NOW = 'webhook_signature_jwks_unavailable'
const FIELD = 'push_notification_config'
const NO_KEY: Violation = {
  pointer: '/authentication',
  message: 'is needed: this agent has no webhook signing key',
  keyword: 'not',
  suggestion: 'Send authentication with the scheme HMAC-SHA256 or Bearer.',
}

export const PushConfig = Type.Object({
  url: Type.String({ format: 'uri', maxLength: 2_048 }),
  operation_id: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_.:-]{1,255}$' })),
  token: Type.Optional(Type.String({ minLength: 16, maxLength: 4_096 })),
  authentication: Type.Optional(
    Type.Object(
      {
        schemes: Type.Array(Type.Union([Type.Literal('Bearer'), Type.Literal('HMAC-SHA256')]), {
          minItems: 1,
          maxItems: 1,
        }),
        credentials: Type.String({ minLength: 32, maxLength: 4_096 }),
      },
      { additionalProperties: false },
    ),
  ),
})
export type PushConfig = Static<typeof PushConfig>

const check = compileCheck(PushConfig)

/** Whether its credentials were only in the memory of a process that has ended. */
export function hasLostSecret({ authentication }: PushConfig): boolean {
  return authentication !== undefined && authentication.credentials === undefined
}

/** Under the member of the request that it stands in. */
function refused(violations: readonly Violation[]): { refused: AdcpError } {
  return {
    refused: invalidRequest(violations.map((one) => ({ ...one, pointer: `/${FIELD}${one.pointer}` }))),
  }
}

export type PushRules = {
  /** Whether we have a key to sign with: what a configuration without `authentication` asks for. */
  signs: boolean
  /** Why the egress guard would not let a request go there; undefined when it would. */
  unreachable(url: string): Promise<SendFailure | undefined>
}

/** What is wrong with a url or credentials that have the right form, all of it at once. */
async function objections(
  { url: target, authentication }: Partial<PushConfig>,
  rules: PushRules,
): Promise<Violation[]> {
  const found: Violation[] = []
  const object = (pointer: string, message: string, suggestion: string) =>
    found.push({ pointer, message, keyword: 'not', suggestion })
  if (target !== undefined) {
    const url = new URL(target)
    if (url.username !== '' || url.password !== '' || url.hash !== '') {
      const suggestion = 'Send the url without them; use authentication.'
      object('/url', 'must have neither credentials nor a fragment', suggestion)
    }
    if ((await rules.unreachable(target)) !== undefined) {
      object('/url', 'cannot be reached from here', 'Give a public https url.')
    }
  }
  if (authentication?.schemes[0] === 'Bearer' && /[^\x21-\x7e]/.test(authentication.credentials)) {
    object('/authentication/credentials', 'cannot stand in a header', 'Send printable ASCII without spaces.')
  }
  return found
}

/** The members that have the right form: what else is wrong with them is told together with what has not. */
function sound(value: unknown, issues: readonly Violation[]): Partial<PushConfig> {
  const members = Object.entries(isRecord(value) ? value : {})
  const isBad = (name: string) => issues.some(({ pointer }) => pointer.split('/')[1] === name)
  return Object.fromEntries(members.filter(([name]) => !isBad(name)))
}

/** The configuration as it will be honoured, or everything that is wrong with it; undefined where none was sent. */
export async function readPushConfig(
  value: unknown,
  rules: PushRules,
): Promise<PushConfig | { refused: AdcpError } | undefined> {
  if (value === undefined) return undefined
  const checked = check(value)
  const issues = checked.ok ? [] : checked.issues
  const unsigned: Violation[] =
    isRecord(value) && value.authentication === undefined && !rules.signs ? [NO_KEY] : []
  const found = [...issues, ...(await objections(sound(value, issues), rules)), ...unsigned]
  return checked.ok && found.length === 0 ? checked.value : refused(found)
}

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
  { resolve = callersResolve, lookupMs = LOOKUP_MS }: TargetCheckOptions = {},
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

export type WebhookOutcome =
  | { kind: 'delivered' }
  /** Worth another try. */
  | { kind: 'undelivered'; reason: string; retryAfterMs?: number }
  /** No further try will do better; `signature`: the protocol's word for what the receiver has against ours. */
  | { kind: 'rejected'; reason: string; retryAfterMs?: number; status?: number; signature?: string }

type WebhookOptions = {
  post: Post
  now(): number
}

/**
 * Sends in the way that the receiver asked for: with its own `authentication`, otherwise signed (RFC 9421). Rejects when it is to
 * be signed and there is no key: only configurations with `authentication` were accepted then.
 */
export function createWebhook({ post, now }: WebhookOptions) {
  /**
   * Sends `body` to the url that the caller configured; `headers` are sent in addition to those that authenticate it. Where it
   * `isWanted` no more once its turn comes, it is undelivered for the reason `aborted`.
   */
  return async (
    caller: string,
    config: PushConfig,
    body: string,
    headers: Record<string, string> = {},
    isWanted?: () => Promise<boolean>,
  ): Promise<WebhookOutcome> => {
    const { url, authentication } = config
    const letter: Letter = {
      caller,
      url: new URL(url).href,
      body,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_REPLY_BYTES,
      isHeadEnough: true,
      ...(!authentication && { signedAt: now() }),
      headers: { ...(authentication && legacyHeaders(authentication, body, now())), ...headers },
    }
    const outcome = await post(letter, isWanted)
    if (outcome.kind === 'failed') {
      const { reason } = outcome
      return reason === 'refused' ? { kind: 'rejected', reason } : { kind: 'undelivered', reason }
    }
    const { status, headers: answered } = outcome
    if (status >= 200 && status < 300) return { kind: 'delivered' }
    const retryAfterMs = askedWaitMs(answered, now())
    const refusal = { reason: `status ${status}`, ...(retryAfterMs !== undefined && { retryAfterMs }) }
    const challenge = status === 401 ? (answered['www-authenticate'] ?? '') : ''
    const [, signature] = SIGNATURE_ERROR.exec(challenge) ?? []
    if (status >= 500 || TRY_AGAIN.has(status) || signature === NOT_NOW)
      return { kind: 'undelivered', ...refusal }
    return { kind: 'rejected', ...refusal, status, ...(signature && { signature }) }
  }
}

export type Webhook = ReturnType<typeof createWebhook>
