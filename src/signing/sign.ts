/** Signs what we send: requests to agents that ask for it, and webhooks (RFC 9421 under the protocol's profiles). */
import { createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isRecord } from '../adcp/json.js'
import type { Send } from '../net/send.js'
import type { Jwk } from './key.js'
import {
  type Algorithm,
  bodyDigest,
  LABEL,
  LONGEST_WINDOW_S,
  type Profile,
  signatureBase,
  targetOf,
} from './signature.js'

const NONCE_BYTES = 16

export type SigningKey = {
  /** The id of the key in our published key set. */
  keyId: string
  /** Ed25519 or P-256. */
  privateKey: KeyObject
}

type SignedHeaders = Record<string, string>

/** The key to sign with. Throws for a key of another kind. */
export function algorithmOf({ privateKey }: SigningKey): Algorithm {
  const type = privateKey.asymmetricKeyType
  if (type === 'ed25519') return 'ed25519'
  const curve = privateKey.asymmetricKeyDetails?.namedCurve
  if (type === 'ec' && curve === 'prime256v1') return 'ecdsa-p256-sha256'
  throw new Error(`signing key: expected Ed25519 or P-256, got ${type}${curve ? ` on ${curve}` : ''}`)
}

/** The public half, as a member of a key set. */
export function publicJwk(key: SigningKey): Jwk {
  const alg = algorithmOf(key) === 'ed25519' ? 'EdDSA' : 'ES256'
  return {
    ...createPublicKey(key.privateKey).export({ format: 'jwk' }),
    ...{ kid: key.keyId, use: 'sig', key_ops: ['verify'], alg, adcp_use: 'request-signing' },
  }
}

const quotedText = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`

/** What a receiver may want different from the default. */
type Wanted = {
  /** Whether the signature covers the digest of the body. Default: true. */
  digest?: boolean
  /** Standard base64 for the signature, as agents of 3.2 expect in requests. Default: false. */
  padded?: boolean
}

/**
 * The headers of one signed POST of a JSON body. `nowMs` is ms since the epoch; `nonce` is at least 16 unguessable
 * bytes, base64url. Signatures are base64url without padding and digests standard base64, as in the published test
 * vectors of 3.1. Throws for a url that cannot be signed, and for a key of another kind.
 */
export function createSigner(key: SigningKey, { tag }: Profile) {
  const algorithm = algorithmOf(key)
  const always = ['@method', '@target-uri', '@authority', 'content-type']
  return (url: string, body: string, nowMs: number, nonce: string, wanted: Wanted = {}): SignedHeaders => {
    const { digest: coversDigest = true, padded = false } = wanted
    const components = coversDigest ? [...always, 'content-digest'] : always
    const bytes = Buffer.from(body)
    const created = Math.floor(nowMs / 1_000)
    const headers = {
      'content-type': 'application/json',
      ...(coversDigest && {
        'content-digest': `sha-256=:${bodyDigest('sha-256', bytes)?.toString('base64')}:`,
      }),
    }
    const params = [
      `created=${created}`,
      `expires=${created + LONGEST_WINDOW_S}`,
      `nonce=${quotedText(nonce)}`,
      `keyid=${quotedText(key.keyId)}`,
      `alg="${algorithm}"`,
      `tag="${tag}"`,
    ]
    const input = `(${components.map((name) => `"${name}"`).join(' ')});${params.join(';')}`
    const target = targetOf(url)
    const base =
      target && signatureBase(components, input, { method: 'POST', url, headers, body: bytes }, target)
    if (base === undefined) throw new Error(`This url cannot be signed: ${url}`)
    const signature =
      algorithm === 'ed25519'
        ? sign(null, Buffer.from(base), key.privateKey)
        : sign('sha256', Buffer.from(base), { key: key.privateKey, dsaEncoding: 'ieee-p1363' })
    return {
      ...headers,
      'signature-input': `${LABEL}=${input}`,
      signature: `${LABEL}=:${signature.toString(padded ? 'base64' : 'base64url')}:`,
    }
  }
}

export type Signer = ReturnType<typeof createSigner>

/** What an agent wants to be signed. */
export type SigningWish = {
  operations: readonly string[]
  /** Whether the signature may cover the digest of the body; true unless the agent forbids it. */
  digest: boolean
  /** The agent speaks 3.2, where signatures are standard base64. */
  padded: boolean
}

type SignedSendOptions = {
  send: Send
  sign: Signer
  /** What the agent wants, by what is known of it at present. */
  wish(): SigningWish | undefined
  now(): number
}

/** The operation that a JSON-RPC message calls; undefined when it calls none. */
function operationOf(body: string): string | undefined {
  const { method, params } = JSON.parse(body) as { method?: unknown; params?: unknown }
  if (!isRecord(params)) return undefined
  if (method === 'tools/call') return typeof params.name === 'string' ? params.name : undefined
  const parts = isRecord(params.message) ? params.message.parts : undefined
  for (const part of Array.isArray(parts) ? parts : []) {
    if (isRecord(part) && isRecord(part.data) && typeof part.data.skill === 'string') return part.data.skill
  }
  return undefined
}

/**
 * Signs our requests to an agent that asks for it, over either transport: the operations that its capabilities name
 * (`request_signing`). All other requests are sent unsigned.
 */
export function createSignedSend({ send, sign, wish, now }: SignedSendOptions): Send {
  return (request) => {
    const wanted = wish()
    const { url, method, body, headers } = request
    if (!wanted || method !== 'POST' || typeof body !== 'string') return send(request)
    const operation = operationOf(body)
    if (operation === undefined || !wanted.operations.includes(operation)) return send(request)
    const nonce = randomBytes(NONCE_BYTES).toString('base64url')
    return send({ ...request, headers: { ...headers, ...sign(url, body, now(), nonce, wanted) } })
  }
}
