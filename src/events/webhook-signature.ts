/**
 * Signs webhooks: HTTP Message Signatures (RFC 9421) under the protocol's webhook profile, or the legacy shared-secret
 * schemes when the caller registered one. The registration alone decides which: never both (schema
 * core/push-notification-config, "Precedence is a switch").
 */
import { createHmac, hash, type KeyObject, sign } from 'node:crypto'
import { type InnerList, type Item, serializeDictionary, serializeInnerList } from 'structured-headers'
import type { PushConfig } from './push-config.js'

const PROFILE = 'adcp/webhook-signing/v1'
const VALID_S = 300 // the profile's longest
const LABEL = 'sig1'

/** The two algorithms that the profile allows, by the key's type. */
const ALGORITHMS = { ed25519: 'ed25519', ec: 'ecdsa-p256-sha256' } as const

export type WebhookKey = {
  /** As the receiver finds it in our published key set. */
  keyId: string
  /** Ed25519 or P-256. */
  privateKey: KeyObject
}

export type Headers = Record<string, string>

function algorithmOf({ privateKey }: WebhookKey): string {
  const type = privateKey.asymmetricKeyType
  if (type === 'ed25519') return ALGORITHMS.ed25519
  const curve = privateKey.asymmetricKeyDetails?.namedCurve
  if (type === 'ec' && curve === 'prime256v1') return ALGORITHMS.ec
  throw new Error(`webhook key: expected Ed25519 or P-256, got ${type}${curve ? ` on ${curve}` : ''}`)
}

/** The headers of one signed POST of `body` to `target`. `nowMs` since the epoch; `nonce` unguessable. */
export function createSigner(key: WebhookKey) {
  const algorithm = algorithmOf(key)
  return (target: string, body: string, nowMs: number, nonce: string): Headers => {
    const url = new URL(target)
    const created = Math.floor(nowMs / 1_000)
    const headers: Headers = {
      'content-type': 'application/json',
      'content-digest': serializeDictionary({ 'sha-256': [hash('sha256', body, 'buffer'), new Map()] }),
    }
    const components: [name: string, value: string][] = [
      ['@method', 'POST'],
      ['@target-uri', url.href],
      ['@authority', url.host],
      ['content-type', headers['content-type'] as string],
      ['content-digest', headers['content-digest'] as string],
    ]
    const input: InnerList = [
      components.map(([name]): Item => [name, new Map()]),
      new Map<string, string | number>([
        ['created', created],
        ['expires', created + VALID_S],
        ['nonce', nonce],
        ['keyid', key.keyId],
        ['alg', algorithm],
        ['tag', PROFILE],
      ]),
    ]
    const base = [
      ...components.map(([name, value]) => `"${name}": ${value}`),
      `"@signature-params": ${serializeInnerList(input)}`,
    ].join('\n')
    const signature =
      algorithm === ALGORITHMS.ed25519
        ? sign(null, Buffer.from(base), key.privateKey)
        : sign('sha256', Buffer.from(base), { key: key.privateKey, dsaEncoding: 'ieee-p1363' })
    return {
      ...headers,
      'signature-input': serializeDictionary({ [LABEL]: input }),
      signature: serializeDictionary({ [LABEL]: [new Uint8Array(signature), new Map()] }),
    }
  }
}

export type Signer = ReturnType<typeof createSigner>

/** The headers of the scheme that the caller registered. */
export function legacyHeaders(
  { schemes, credentials }: NonNullable<PushConfig['authentication']>,
  body: string,
  nowMs: number,
): Headers {
  const base = { 'content-type': 'application/json' }
  if (schemes[0] === 'Bearer') return { ...base, authorization: `Bearer ${credentials}` }
  const timestamp = String(Math.floor(nowMs / 1_000))
  const digest = createHmac('sha256', credentials).update(`${timestamp}.${body}`).digest('hex')
  return { ...base, 'x-adcp-timestamp': timestamp, 'x-adcp-signature': `sha256=${digest}` }
}
