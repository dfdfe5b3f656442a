/** The text that is signed (RFC 9421, section 2.5): a line for each component, and what was said about them. */
import { hash } from 'node:crypto'
import { canonicalUrl } from '../adcp/url.js'
import { fieldText, type HeaderValue } from './fields.js'

/** What `@target-uri` and `@authority` are of a url, in the one spelling that both sides sign. */
type Target = { uri: string; authority: string }

/** The canonical target; undefined for a url that nobody may sign. */
export function targetOf(url: string): Target | undefined {
  const uri = canonicalUrl(url)
  if (uri === undefined) return undefined
  const [, authority = ''] = /^https?:\/\/([^/?]*)/.exec(uri) ?? []
  return { uri, authority }
}

/** A url as it may stand on the wire: names of other scripts are already encoded there (RFC 3986, section 2). */
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

/** What a component stands for; undefined for what the message does not have, or cannot be signed. */
function componentValue(component: string, { method, headers }: SignedMessage, { uri, authority }: Target) {
  if (component === '@method') return method.toUpperCase()
  if (component === '@target-uri') return uri
  if (component === '@authority') return authority
  return component.startsWith('@') ? undefined : fieldText(headers[component])?.trim()
}

/** The base, without a line break at its end. Undefined when a component is not there. */
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

/** A body's digest by RFC 9530's name of the algorithm; undefined for one that is not used here. */
export function bodyDigest(algorithm: string, body: Uint8Array): Buffer | undefined {
  if (algorithm === 'sha-256') return hash('sha256', body, 'buffer')
  return algorithm === 'sha-512' ? hash('sha512', body, 'buffer') : undefined
}
