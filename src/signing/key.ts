/**
 * Keys: the private one that we sign with, and public ones from key sets (RFC 7517), whether they may be used for a signature and
 * where they are found.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { boundedText, isRecord, tryParseJson } from '../adcp/json.js'
import type { Send } from '../net/send.js'

/** The two algorithms that the profiles allow (RFC 9421, section 3.3). */
export const ALGORITHMS = ['ed25519', 'ecdsa-p256-sha256'] as const
export type Algorithm = (typeof ALGORITHMS)[number]

export type Jwk = Readonly<Record<string, unknown>> & { kid?: unknown }

/** A key and its owner. */
export type FoundKey = { owner: string; jwk: Jwk }
export type KeyAnswer = FoundKey | 'unknown' | 'unavailable'

export type SigningKey = {
  /** The id of the key in our published key set. */
  keyId: string
  /** Ed25519 or P-256. */
  privateKey: KeyObject
}

const SIGNATURE_BYTES = 64
const TIMEOUT_MS = 10_000
const MAX_BYTES = 64 * 1024
const MAX_KEYS = 32 // of one set: there are thousands of sets
const MAX_KEY_ID = 255
const MAX_TEXT = 100 // of another member: the longest, a coordinate, has 43 characters
const MAX_AGE_MS = 10 * 60_000
const COOLDOWN_MS = 30_000 // for an unknown key id, and after a failure

/** The members of a key that are used and are texts, beside its id. */
const TEXTS = ['kty', 'crv', 'alg', 'use', 'adcp_use', 'x', 'y'] as const

/** The parameters of a key of each algorithm (RFC 7518, RFC 8037). */
const SHAPES: Readonly<Record<Algorithm, { kty: string; crv: string; alg: string }>> = {
  ed25519: { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA' },
  'ecdsa-p256-sha256': { kty: 'EC', crv: 'P-256', alg: 'ES256' },
}

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

type KeySource = { owner: string; keys: readonly Jwk[] } | { owner: string; url: string }

type KeySetsOptions = { sources: readonly KeySource[]; send: Send; now(): number }

type Published = { keys: readonly Jwk[]; readAt: number }

/** Only a key of this purpose: a key for another purpose must not vouch for a signature that its owner never made. */
export function isUsable(jwk: Jwk, algorithm: Algorithm, uses: readonly string[]): boolean {
  const { kty, crv, alg } = SHAPES[algorithm]
  return (
    jwk.kty === kty &&
    jwk.crv === crv &&
    jwk.alg === alg &&
    jwk.use === 'sig' &&
    Array.isArray(jwk.key_ops) &&
    jwk.key_ops.includes('verify') &&
    typeof jwk.adcp_use === 'string' &&
    uses.includes(jwk.adcp_use)
  )
}

/** Read once for all signatures of a key: that takes as long as verifying one. */
const objects = new WeakMap<Jwk, KeyObject>()

function keyObject(jwk: Jwk): KeyObject | undefined {
  const known = objects.get(jwk)
  if (known) return known
  const { kty, crv, x, y } = jwk
  try {
    const read = createPublicKey({
      key: { kty, crv, x, y } as import('node:crypto').JsonWebKey,
      format: 'jwk',
    })
    objects.set(jwk, read)
    return read
  } catch {
    return undefined // the coordinates are not a point of the curve
  }
}

/** Whether the key made the signature. ECDSA signatures are r followed by s (RFC 9421, section 3.3.4). */
export function isSignedBy(jwk: Jwk, algorithm: Algorithm, base: string, signature: Uint8Array): boolean {
  const key = keyObject(jwk)
  if (!key || signature.length !== SIGNATURE_BYTES) return false
  const text = Buffer.from(base)
  if (algorithm === 'ed25519') return verify(null, text, key, signature)
  return verify('sha256', text, { key, dsaEncoding: 'ieee-p1363' }, signature)
}

/** What is used of a published key. */
function readJwk(raw: Readonly<Record<string, unknown>>): Jwk {
  const texts = TEXTS.map((name) => [name, boundedText(raw[name], MAX_TEXT)] as const)
  const verifies = Array.isArray(raw.key_ops) && raw.key_ops.includes('verify')
  return {
    ...Object.fromEntries(texts.filter(([, text]) => text !== undefined)),
    ...{ kid: raw.kid, ...(verifies && { key_ops: ['verify'] }) },
  }
}

/** Keys are found by their id: one without it, or with a longer one than is kept, is none. */
function keysIn(body: Uint8Array): readonly Jwk[] | undefined {
  const read = tryParseJson(body)
  if (!isRecord(read) || !Array.isArray(read.keys)) return undefined
  const named = read.keys
    .filter(isRecord)
    .filter(({ kid }) => typeof kid === 'string' && kid.length <= MAX_KEY_ID)
  return named.slice(0, MAX_KEYS).map(readJwk)
}

/** One owner's published keys; concurrent readers share one request. */
function createPublished(url: string, send: Send, now: () => number) {
  let known: Published | undefined
  let triedAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  async function read(): Promise<void> {
    triedAt = now()
    const reply = await send({
      url,
      headers: { accept: 'application/json' },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
    })
    const keys = reply.kind === 'reply' && reply.status === 200 ? keysIn(reply.body) : undefined
    if (keys) known = { keys, readAt: now() }
  }

  async function refresh(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined
    })
    await reading
  }

  const fresh = () => (known && now() - known.readAt < MAX_AGE_MS ? known.keys : undefined)

  /** Undefined when no key set can be read. */
  return async (keyid: string): Promise<Jwk | 'unknown' | undefined> => {
    const found = fresh()?.find(({ kid }) => kid === keyid)
    if (found) return found
    if (now() - triedAt >= COOLDOWN_MS) await refresh()
    else await reading
    const keys = fresh()
    return keys && (keys.find(({ kid }) => kid === keyid) ?? 'unknown')
  }
}

/**
 * Finds the public keys of those who send us signed messages by id, in the configuration or where they publish them: those of
 * `owner`; without an owner, the first source that has the id. A new key is found when its first signature arrives; a removed
 * key stops working within minutes.
 */
export function createKeySets({ sources, send, now }: KeySetsOptions) {
  const finders = sources.map((source) => {
    const published = 'url' in source ? createPublished(source.url, send, now) : undefined
    const own = 'keys' in source ? source.keys : []
    return {
      owner: source.owner,
      find: async (keyid: string) =>
        published ? published(keyid) : (own.find(({ kid }) => kid === keyid) ?? ('unknown' as const)),
    }
  })

  return async (keyid: string, owner?: string): Promise<KeyAnswer> => {
    const asked = finders.filter((one) => owner === undefined || one.owner === owner)
    const found = await Promise.all(
      asked.map(async (one) => ({ owner: one.owner, jwk: await one.find(keyid) })),
    )
    const hit = found.find((one): one is FoundKey => one.jwk !== undefined && one.jwk !== 'unknown')
    if (hit) return hit
    return found.some(({ jwk }) => jwk === undefined) ? 'unavailable' : 'unknown'
  }
}
