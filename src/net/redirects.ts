/**
 * Redirects are followed by a wrapper around `send`: at most three, only inside the registrable domain first asked, each hop guarded
 * like a request of its own (docs/protocol.md#provider-files).
 */
import { getDomain } from 'tldts'
import { failed, type Outbound, type Send, type SendFailed } from './send.js'

const MAX_HOPS = 3
// The headers that may go to another host of the site. Every other header may be a credential, whatever its name.
const HARMLESS = /^(accept|content-type|user-agent|if-|mcp-protocol-version$|mcp-method$|mcp-name$|a2a-)/
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Hosts without a registrable domain (addresses, localhost) are a site of their own, port included. */
export function sameSite(a: URL, b: URL): boolean {
  const site = getDomain(a.hostname, { allowPrivateDomains: true })
  if (!site) return a.host === b.host
  return site === getDomain(b.hostname, { allowPrivateDomains: true })
}

function withoutCredentials(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => HARMLESS.test(name.toLowerCase())))
}

const bad = (message: string) => failed('bad_redirect', message)

/** The request for the next hop, or the reason why it is not made. */
function nextHop(request: Outbound, status: number, location: string | undefined): Outbound | SendFailed {
  const from = new URL(request.url)
  const to = location !== undefined && URL.canParse(location, from.href) ? new URL(location, from) : undefined
  if (!to) return bad(`${status} without a usable location`)
  if (to.protocol !== from.protocol && to.protocol !== 'https:') return bad('the redirect leaves https')
  if (!sameSite(from, to)) return bad('the redirect leaves the site first asked')
  const repeatable = status === 307 || status === 308
  if (request.method === 'POST' && !repeatable) return bad(`${status} would turn the POST into a GET`)
  const headers = request.headers ?? {}
  return {
    ...request,
    url: to.href,
    headers: from.origin === to.origin ? headers : withoutCredentials(headers),
  }
}

/** A `Send` that follows redirects for `redirects: 'same-site'`; for every other request a 3xx is an ordinary reply. */
export function followRedirects(send: Send, now: () => number): Send {
  return async (request) => {
    if (request.redirects !== 'same-site') return send(request)
    const until = now() + request.timeoutMs
    let hop = request
    for (let hops = 0; ; hops++) {
      const outcome = await send({ ...hop, timeoutMs: Math.max(1, until - now()) })
      if (outcome.kind === 'failed' || !REDIRECTS.has(outcome.status)) return outcome
      if (hops === MAX_HOPS) return bad(`more than ${MAX_HOPS} redirects`)
      const next = nextHop(hop, outcome.status, outcome.headers.location)
      if ('kind' in next) return next
      hop = next
    }
  }
}
