/** Verifies an RFC 9421 signature from what was received, by a way of its own: parsed headers, rebuilt base. */
import { createHash, type KeyObject, verify } from 'node:crypto'
import { type InnerList, parseDictionary, serializeInnerList } from 'structured-headers'
import type { Received } from './receiver.js'

export function verifySignature({ headers, body }: Received, target: string, key: KeyObject) {
  const input = parseDictionary(String(headers['signature-input'])).get('sig1') as InnerList
  // Base64url without padding, which RFC 8941 does not read: the protocol's own form.
  const [, encoded] = /^sig1=:([A-Za-z0-9_-]{86}):$/.exec(String(headers.signature)) ?? []
  if (encoded === undefined) return { ok: false, why: 'encoding' }
  const digest = createHash('sha256').update(body).digest('base64')
  if (headers['content-digest'] !== `sha-256=:${digest}:`) return { ok: false, why: 'digest' }
  const url = new URL(target)
  const componentOf: Record<string, string> = {
    '@method': 'POST',
    '@target-uri': url.href,
    '@authority': url.host,
    'content-type': String(headers['content-type']),
    'content-digest': String(headers['content-digest']),
  }
  const [components, params] = input
  const lines = components.map(([name]) => `"${name}": ${componentOf[String(name)]}`)
  const base = Buffer.from([...lines, `"@signature-params": ${serializeInnerList(input)}`].join('\n'))
  const bytes = Buffer.from(encoded, 'base64url')
  const ok =
    params.get('alg') === 'ed25519'
      ? verify(null, base, key, bytes)
      : verify('sha256', base, { key, dsaEncoding: 'ieee-p1363' }, bytes)
  return { ok, params: Object.fromEntries(params), covered: components.map(([name]) => name) }
}
