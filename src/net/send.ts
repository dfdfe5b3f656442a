/**
 * The contract of every outbound request: one function that takes a budget of time and decoded bytes, and returns its
 * outcome as a value. `net/egress.ts` is the only implementation.
 */
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
   * For bodies that may never end (event streams): called once per answer, it returns a reader of chunks, which returns
   * `true` when it has enough. The reader gets the chunks, so the body of the reply is empty.
   */
  enough?: (headers: Record<string, string>) => ((chunk: Uint8Array) => boolean) | undefined
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
  | 'timeout'
  | 'too_large'
  | 'crowded_out' // all answers together were too large, and this one was given up
  | 'bad_redirect'
  | 'broken_body'
  | 'aborted'

export type SendFailed = { kind: 'failed'; reason: SendFailure; message: string }

export type SendOutcome = Reply | SendFailed

export type Send = (request: Outbound) => Promise<SendOutcome>
