/** The text that is signed (RFC 9421, section 2.5): one line per component, then the signature's parameters. */
import { hash } from 'node:crypto'
import { canonicalUrl } from '../adcp/url.js'
import { fieldText, type HeaderValue } from './fields.js'

/** The values of `@target-uri` and `@authority` for a url, in the one spelling that both sides sign. */
type Target = { uri: string; authority: string }

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

/** One HTTP request, as sent or as received. */
export type SignedMessage = {
  method: string
  url: string
  /** Names in lower case. */
  headers: Readonly<Record<string, HeaderValue>>
  body: Uint8Array
}

/** The value of a component; undefined when the message lacks it or it cannot be signed. */
function componentValue(component: string, { method, headers }: SignedMessage, { uri, authority }: Target) {
  if (component === '@method') return method.toUpperCase()
  if (component === '@target-uri') return uri
  if (component === '@authority') return authority
  return component.startsWith('@') ? undefined : fieldText(headers[component])?.trim()
}

/** The base, without a line break at its end. Undefined when a component is missing. */
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
