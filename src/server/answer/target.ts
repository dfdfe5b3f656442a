/**
 * What a request asks for. A client that takes us for a proxy sends a whole url. That url then says whom the request is for, and
 * its Host does not count (RFC 9112, section 3.2.2); whoever reads either reads the same.
 */
import type { IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'

/** A name or an IPv4 address, or nothing, with or without a port; the same with an IPv6 address (RFC 3986, section 3.2). */
const NAMED = /^(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*(?::\d*)?$/i
const BRACKETED = /^\[([\da-f:.]+)\](?::\d*)?$/i
const WHOLE_URL = /^https?:\/\/([^/?#]+)(.*)$/i
const SLASH = 0x2f

/**
 * Whether the Host of a request is what it may be (RFC 9112, section 3.2). Two of them have arrived as one list, which is none;
 * only HTTP/1.0 may have none.
 */
export function isHostSound({ headers: { host }, httpVersion }: IncomingMessage): boolean {
  if (host === undefined) return httpVersion === '1.0'
  return NAMED.test(host) || isIPv6(BRACKETED.exec(host)?.[1] ?? '')
}

/** Whether we speak the version of a request. Node reads some of HTTP/2 and above as if they were of HTTP/1.1. */
export function isOurVersion({ httpVersionMajor }: IncomingMessage): boolean {
  return httpVersionMajor === 1
}

/** Whether a request is for the server as a whole (RFC 9112, section 3.2.4). */
export function isForServer(url: string | undefined): boolean {
  return url === '*'
}

/** Gives a request to a whole url the path and the Host of the url. One whose own Host is not sound stays as it is. */
export function toPath(request: IncomingMessage): void {
  const { url = '' } = request
  if (url.charCodeAt(0) === SLASH) return
  const [, authority, rest = ''] = WHOLE_URL.exec(url) ?? []
  if (authority === undefined || !isHostSound(request)) return
  request.url = rest.charCodeAt(0) === SLASH ? rest : `/${rest}`
  request.headers.host = authority
}
