/**
 * What went wrong below HTTP, in our words: the resolver's, the socket's and OpenSSL's codes become a reason of the
 * contract and a sentence for the operator. An upstream's own text never gets in: certificates are written by strangers.
 */
import { errors as undici } from 'undici'
import { EgressRefused } from './connect.js'
import type { Failed, SendFailure } from './send.js'

const UNRESOLVABLE = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ENODATA', 'EAI_NONAME'])

const UNKNOWN_AUTHORITY = 'its certificate is signed by an authority that is not trusted here'

/** OpenSSL's verdicts on a certificate, by the codes that Node gives them. */
const CERTIFICATE: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
}

export function failed(reason: SendFailure, message: string): Failed {
  return { kind: 'failed', reason, message }
}

/** The failure behind an error of the connection: undici's errors are the network's, not ours. */
export function failureOf(error: unknown): Failed {
  const { code, message, errors } = error as { code?: string; message: string; errors?: { code?: string }[] }
  if (error instanceof EgressRefused) return failed('refused', message)
  const cause = code ?? errors?.[0]?.code ?? 'unknown cause'
  if (UNRESOLVABLE.has(cause)) return failed('unresolvable', `the name does not resolve (${cause})`)
  if (cause === 'UND_ERR_HEADERS_OVERFLOW') return failed('too_large', 'the header section is too long')
  if (error instanceof undici.HTTPParserError) return failed('broken_body', 'the answer is not HTTP')
  const certificate = CERTIFICATE[cause]
  if (certificate) return failed('unreachable', `${certificate} (${cause})`)
  if (cause === 'EPROTO' || cause.startsWith('ERR_SSL_')) {
    return failed('unreachable', `it does not speak TLS as we do (${cause})`)
  }
  return failed('unreachable', `${message || 'no connection'} (${cause})`)
}
