/**
 * A signature over an HTTP message (RFC 9421). For those who sign and those who verify: the protocol's two profiles, the header
 * fields that carry a signature, and the text that is signed. Then the signing of what we send: requests to agents that ask for
 * it, and webhooks; signing/verify.ts is the other side.
 *
 * The profiles, for requests and for webhooks, differ in their tag, in which keys may sign, in the content digest, and in the
 * names of their errors. Header fields (RFC 8941 dictionaries) are read more strictly than RFC 8941: a repeated member or
 * parameter is an error, where RFC 8941 takes the last one, because two readers must not read one signature in two ways. Byte
 * sequences may also be base64url, because the protocol's signatures are.
 */
import { hash, randomBytes, sign } from 'node:crypto'
import { type InnerList, parseList } from 'structured-headers'
import { isRecord } from '../adcp/json.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Send } from '../net/send.js'
import { algorithmOf, type SigningKey } from './key.js'

/** Seconds. A signature is short-lived, and clocks may disagree a little. */
export const LONGEST_WINDOW_S = 300
export const CLOCK_SKEW_S = 60

/** Signatures with other labels belong to others, such as a relay: they are neither verified nor counted. */
const LABEL = 'sig1'

const NONCE_BYTES = 16
const MEMBER = /^\s*([a-z*][a-z0-9_.*-]*)=(.+?)\s*$/s
const QUOTED = /"(?:[^"\\]|\\.)*"/g
const STANDARD = /^[A-Za-z0-9+/]+={0,2}$/
const URL_SAFE = /^[A-Za-z0-9_-]+$/
const NUMBERS = new Set(['created', 'expires'])

/** Whether the signature must cover the digest of the body. */
export type DigestPolicy = 'required' | 'forbidden' | 'either'

export type Profile = {
  tag: string
  /** The purposes (`adcp_use`) that a key may have to be used here. */
  keyUses: readonly string[]
  /** The beginning of its error codes; the fault is the ending. */
  errors: 'request' | 'webhook'
}

export const REQUESTS: Profile = {
  tag: 'adcp/request-signing/v1',
  keyUses: ['request-signing'],
  errors: 'request',
}

/** Webhooks are signed with the key for requests; keys of the older purpose for webhooks are still accepted. */
export const WEBHOOKS: Profile = {
  tag: 'adcp/webhook-signing/v1',
  keyUses: ['request-signing', 'webhook-signing'],
  errors: 'webhook',
}

/** Why a signature is refused, in the order of the checks: the first fault found is the one that is reported. */
export type Fault =
  | 'signature_required'
  | 'target_uri_malformed'
  | 'signature_header_malformed'
  | 'signature_params_incomplete'
  | 'signature_tag_invalid'
  | 'signature_alg_not_allowed'
  | 'signature_window_invalid'
  | 'signature_components_incomplete'
  | 'signature_components_unexpected'
  | 'signature_jwks_unavailable'
  | 'signature_key_unknown'
  | 'signature_key_purpose_invalid'
  | 'signature_revocation_stale'
  | 'signature_key_revoked'
  | 'signature_rate_abuse'
  | 'signature_invalid'
  | 'signature_digest_mismatch'
  | 'signature_replayed'
  | 'body_malformed'

/** A header as Node gives it: repeated headers arrive joined or as a list. */
type HeaderValue = string | readonly string[] | undefined

export type SignatureInput = {
  components: readonly string[]
  params: ReadonlyMap<string, string | number>
  /** The text as it was sent: it is the last line of what is signed. */
  raw: string
}

/** One HTTP request, as sent or as received. */
export type SignedMessage = {
  method: string
  url: string
  /** Names in lower case. */
  headers: Readonly<Record<string, HeaderValue>>
  body: Uint8Array
}

/** The values of `@target-uri` and `@authority` for a url, in the one spelling that both sides sign. */
type Target = { uri: string; authority: string }

/** The protocol's word for a fault: `request_signature_invalid`, `webhook_body_malformed`. */
export function codeOf({ errors }: Profile, fault: Fault): string {
  return `${errors}_${fault}`
}

/** The text of one header; repeated headers form one list (RFC 9110, section 5.3). */
export function fieldText(value: HeaderValue): string | undefined {
  return value === undefined || typeof value === 'string' ? value : value.join(', ')
}

/**
 * The members of a dictionary, each as it was sent; undefined when the text is not a dictionary or repeats a member.
 */
function members(text: string): Map<string, string> | undefined {
  const blank = text.replace(QUOTED, (quoted) => '"'.repeat(quoted.length))
  const found = new Map<string, string>()
  let from = 0
  for (const part of blank.split(',')) {
    const [, name, value] = MEMBER.exec(text.slice(from, from + part.length)) ?? []
    from += part.length + 1
    if (name === undefined || value === undefined || found.has(name)) return undefined
    found.set(name, value)
  }
  return found
}

/** Bytes between colons, in one of the two alphabets; undefined for a mixture of both. */
function bytesOf(item: string | undefined): Buffer | undefined {
  const [, token = ''] = /^:([^:]*):$/.exec(item ?? '') ?? []
  if (STANDARD.test(token)) return Buffer.from(token, 'base64')
  return URL_SAFE.test(token) ? Buffer.from(token, 'base64url') : undefined
}

/** The bytes of our label in `Signature`. */
export function readSignature(header: string): Buffer | undefined {
  return bytesOf(members(header)?.get(LABEL))
}

/** The digests of `Content-Digest` (RFC 9530) by their algorithms. */
export function readDigests(header: string): ReadonlyMap<string, Buffer> | undefined {
  const found = new Map<string, Buffer>()
  for (const [algorithm, item] of members(header) ?? []) {
    const bytes = bytesOf(item)
    if (!bytes) return undefined
    found.set(algorithm, bytes)
  }
  return found.size > 0 ? found : undefined
}

function innerList(raw: string): InnerList | undefined {
  try {
    const [list] = parseList(raw)
    return list && Array.isArray(list[0]) ? (list as InnerList) : undefined
  } catch {
    return undefined // a malformed list is no list
  }
}

/** The parameters: texts, and whole numbers for times. Undefined when one has another type or is repeated. */
function paramsOf(
  raw: string,
  given: ReadonlyMap<string, unknown>,
): Map<string, string | number> | undefined {
  const separators =
    raw
      .replace(QUOTED, '')
      .replace(/^\([^)]*\)/, '')
      .split(';').length - 1
  if (separators !== given.size) return undefined
  const params = new Map<string, string | number>()
  for (const [name, value] of given) {
    const isRight = NUMBERS.has(name) ? Number.isSafeInteger(value) : typeof value === 'string'
    if (!isRight) return undefined
    params.set(name, value as string | number)
  }
  return params
}

/** The member of `Signature-Input` with our label; undefined when it is missing or malformed. */
export function readSignatureInput(header: string): SignatureInput | undefined {
  const raw = members(header)?.get(LABEL)
  const list = raw === undefined ? undefined : innerList(raw)
  if (raw === undefined || !list) return undefined
  const [items, given] = list
  const components = items.map(([name, extras]) => (extras.size === 0 ? name : undefined))
  if (components.some((name) => typeof name !== 'string')) return undefined
  if (new Set(components).size !== components.length) return undefined
  const params = paramsOf(raw, given)
  return params && { components: components as string[], params, raw }
}

/** The canonical target; undefined for a url that cannot be signed. */
export function targetOf(url: string): Target | undefined {
  const uri = canonicalUrl(url)
  if (uri === undefined) return undefined
  const [, authority = ''] = /^https?:\/\/([^/?]*)/.exec(uri) ?? []
  return { uri, authority }
}

/** A url as it may be sent: international host names must already be encoded (RFC 3986, section 2). */
export function isWireUrl(url: string): boolean {
  return /^[\x21-\x7e]+$/.test(url)
}

/** The value of a component; undefined when the message lacks it or it cannot be signed. */
function componentValue(component: string, { method, headers }: SignedMessage, { uri, authority }: Target) {
  if (component === '@method') return method.toUpperCase()
  if (component === '@target-uri') return uri
  if (component === '@authority') return authority
  return component.startsWith('@') ? undefined : fieldText(headers[component])?.trim()
}

/** The text that is signed (RFC 9421, section 2.5), without a line break at its end. Undefined when a component is missing. */
export function signatureBase(
  components: readonly string[],
  rawParams: string,
  message: SignedMessage,
  target: Target,
): string | undefined {
  const lines: string[] = []
  for (const component of components) {
    const value = componentValue(component, message, target)
    if (value === undefined) return undefined
    lines.push(`"${component}": ${value}`)
  }
  return [...lines, `"@signature-params": ${rawParams}`].join('\n')
}

/** The digest of a body, by RFC 9530's name of the algorithm; undefined for an algorithm that is not used here. */
export function bodyDigest(algorithm: string, body: Uint8Array): Buffer | undefined {
  if (algorithm === 'sha-256') return hash('sha256', body, 'buffer')
  return algorithm === 'sha-512' ? hash('sha512', body, 'buffer') : undefined
}

type SignedHeaders = Record<string, string>

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
