/**
 * The contract of every outbound request: one function that takes a budget of time and decoded bytes, and returns its
 * outcome as a value; `net/egress.ts` is the only implementation. Redirects are followed by a wrapper around it: at most
 * three, only inside the registrable domain first asked, each hop guarded like a request of its own
 * (docs/protocol.md#provider-files).
 */
import { getDomain } from 'tldts'

const MAX_HOPS = 3
const LONGEST_ASKED_MS = 60 * 60 * 1_000
// The headers that may go to another host of the site. Every other header may be a credential, whatever its name.
const HARMLESS = /^(accept|content-type|user-agent|if-|mcp-protocol-version$|mcp-method$|mcp-name$|a2a-)/
const REDIRECTS = new Set([301, 302, 303, 307, 308])

export type Outbound = {
  url: string
  method?: 'GET' | 'POST'
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Total time for connecting, redirects and the whole body, ms. */
  timeoutMs: number
  /** Decoded bytes: the cap also stops compressed bombs (docs/protocol.md#provider-files). */
  maxBytes: number
  /**
   * `same-site`: follows at most three redirects, inside the registrable domain of the first url
   * (docs/protocol.md#provider-files). Default: follows none.
   */
  redirects?: 'same-site'
  signal?: AbortSignal
  /** Who named the place: at one origin nobody has more requests under way than places are left for others. */
  caller?: string
  /**
   * It changes nothing where it goes, as no GET does. If a connection that was kept is closed under it before any of an answer came,
   * it is sent once more, over a new one.
   */
  isRead?: boolean
  /** Somebody waits for it: its body goes ahead of work of our own. */
  isAwaited?: boolean
  /** Asked when it has a connection and nothing of it was written: where the answer is no, nothing is. */
  mayBegin?: (() => boolean) | undefined
  /**
   * For bodies that may never end (event streams) or are not wanted: called once per answer, it returns a reader of chunks, which
   * returns `true` when it has enough. The first chunk is empty: who needs nothing of the body has its reply with the header
   * section. The reader gets the chunks, so the body of the reply is empty.
   */
  enough?: (head: Pick<Reply, 'status' | 'headers'>) => ((chunk: Uint8Array) => boolean) | undefined
}

export type Reply = {
  kind: 'reply'
  status: number
  /** Names in lower case. */
  headers: Record<string, string>
  body: Uint8Array
  /** The url that answered, after any redirects. */
  url: string
}

export type SendFailure =
  | 'refused' // the egress policy forbids the address
  | 'unresolvable'
  | 'unreachable'
  | 'not_http' // it answers, with something else
  | 'timeout'
  | 'too_large'
  | 'crowded_out' // all answers together were too large, and this one was given up
  | 'bad_redirect'
  | 'broken_body'
  | 'aborted'

/**
 * When a date of HTTP is (RFC 9110, 5.6.7), ms since the epoch. `Date.parse` takes it for local time where it names no zone, and
 * takes nearly anything for some date.
 */
function dateOf(text: string): number | undefined {
  const isDated = /^[A-Z][a-z]+,? .+ \d\d:\d\d:\d\d( GMT| \d{4})$/.test(text)
  const at = isDated ? Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) : Number.NaN
  return Number.isNaN(at) ? undefined : at
}

/**
 * The wait that a reply asks for by Retry-After (RFC 9110, section 10.2.3), in seconds or as a date; ms, an hour at most. What is
 * neither asks for nothing.
 */
export function askedWaitMs({ 'retry-after': value }: Reply['headers'], now: number): number | undefined {
  if (value === undefined) return undefined
  const at = /^\d+$/.test(value) ? now + Number(value) * 1_000 : dateOf(value)
  return at === undefined ? undefined : Math.min(Math.max(0, at - now), LONGEST_ASKED_MS)
}

export type SendFailed = { kind: 'failed'; reason: SendFailure; message: string }

/** No answer, and why. */
export function failed(reason: SendFailure, message: string): SendFailed {
  return { kind: 'failed', reason, message }
}

export type SendOutcome = Reply | SendFailed

export type Send = (request: Outbound) => Promise<SendOutcome>

function parsedUrl(url: string, base?: string): URL | undefined {
  return URL.canParse(url, base) ? new URL(url, base) : undefined
}

/** Hosts without a registrable domain (addresses, localhost) are a site of their own, port included. */
export function sameSite(a: URL, b: URL): boolean {
  const site = getDomain(a.hostname, { allowPrivateDomains: true })
  if (!site) return a.host === b.host
  return site === getDomain(b.hostname, { allowPrivateDomains: true })
}

function withoutCredentials(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => HARMLESS.test(name.toLowerCase())))
}

function bad(message: string): SendFailed {
  return { kind: 'failed', reason: 'bad_redirect', message }
}

/** The request for the next hop, or the reason why it is not made. */
function nextHop(request: Outbound, status: number, location: string | undefined): Outbound | SendFailed {
  const from = new URL(request.url)
  const to = location === undefined ? undefined : parsedUrl(location, request.url)
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
