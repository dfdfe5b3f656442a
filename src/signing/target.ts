/** What `@target-uri` and `@authority` are of a url, in the one spelling that both sides sign. */
import { canonicalUrl } from '../adcp/url.js'

export type Target = { uri: string; authority: string }

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
