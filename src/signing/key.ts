/** Public keys from key sets (RFC 7517), and whether a key may be used for a signature. */
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { Algorithm } from './profile.js'

export type Jwk = Readonly<Record<string, unknown>> & { kid?: unknown }

const SIGNATURE_BYTES = 64

/** The parameters of a key of each algorithm (RFC 7518, RFC 8037). */
const SHAPES: Readonly<Record<Algorithm, { kty: string; crv: string; alg: string }>> = {
  ed25519: { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA' },
  'ecdsa-p256-sha256': { kty: 'EC', crv: 'P-256', alg: 'ES256' },
}

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
