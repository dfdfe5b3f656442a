/**
 * The contract of every outbound request: one function that takes a budget of time and decoded bytes, and returns its
 * outcome as a value; `net/egress.ts` is the only implementation. And what an answer asks of whoever would send again.
 */

const LONGEST_ASKED_MS = 60 * 60 * 1_000

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
