/**
 * One spelling per agent url, used wherever urls are compared (docs/protocol.md#urls). The platform's URL parser
 * handles hosts, ports and dot segments. Before it runs, this file refuses what it would silently repair (missing
 * hosts, backslashes, white space); afterwards this file normalizes what the parser leaves as it was.
 */
import { shownUrl } from './redaction.js'

const PARTS = /^(https?):\/\/([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?$/is
// biome-ignore lint/suspicious/noControlCharactersInRegex: the parser drops or rewrites exactly these
const REPAIRED_BY_THE_PARSER = /[\u0000-\u0020\u007f\\]/
const BAD_ESCAPE = /%(?![0-9a-f]{2})/i
const ESCAPE = /%[0-9a-f]{2}/gi
const UNRESERVED = /[A-Za-z0-9._~-]/

/** RFC 3986 6.2.2: unreserved characters are written plain, every other escape in upper case. */
function normalEscape(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
  return UNRESERVED.test(character) ? character : encoded.toUpperCase()
}

/** The host without its trailing root dot; undefined when a label is empty. */
function normalHost(host: string): string | undefined {
  const bare = host.endsWith('.') ? host.slice(0, -1) : host
  return bare.split('.').includes('') ? undefined : bare
}

function parsed(url: string): URL | undefined {
  try {
    return new URL(url)
  } catch {
    return undefined // a malformed url is a normal answer here: it equals no other url
  }
}

/** The canonical spelling of an http or https url; undefined for a malformed one, which so equals no other. */
export function canonicalUrl(url: string): string | undefined {
  const match = PARTS.exec(url)
  if (!match || REPAIRED_BY_THE_PARSER.test(url)) return undefined
  const [, scheme = '', authority = '', path = '', query = ''] = match
  const [host, userinfo] = authority.split('@').reverse()
  if (!host || host.startsWith(':') || authority.split('@').length > 2 || userinfo?.includes('['))
    return undefined
  if (BAD_ESCAPE.test(path)) return undefined
  const read = parsed(`${scheme}://${host}${path}`)
  const bare = read && normalHost(read.hostname)
  if (!bare) return undefined
  const port = read.port && `:${read.port}`
  return `${read.protocol}//${bare}${port}${read.pathname.replace(ESCAPE, normalEscape)}${query}`
}

/**
 * The url by which an agent is known that the operator wrote: what looks like a credential in its query is one, and no part of the
 * agent. Such an agent is called by the url as written, and published, stored and compared by this one. An agent that somebody
 * else names is its whole canonical url.
 */
export function configuredAgentUrl(url: string): string | undefined {
  const canonical = canonicalUrl(url)
  return canonical === undefined ? undefined : canonicalUrl(shownUrl(canonical))
}

/** The url of a server at a host, a name or an address of either version of IP, and a port. */
export const originAt = (host: string, port: number) =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Whether the query of a canonical url holds what looks like a credential: nobody but the operator can say whether it is one. */
export function holdsCredential(canonical: string): boolean {
  return shownUrl(canonical) !== canonical
}
