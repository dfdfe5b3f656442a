/**
 * The contract of every outbound request: one function, with its budget in time and decoded bytes in the arguments
 * and its outcome as a value. `net/egress.ts` makes the only implementation.
 */
export type Outbound = {
  url: string
  method?: 'GET' | 'POST'
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Total time for connecting, redirects and the whole body, ms. */
  timeoutMs: number
  /** Decoded bytes; a compressed bomb is cut here (docs/protocol.md#provider-files). */
  maxBytes: number
  /**
   * `same-site`: at most three, inside the registrable domain first asked (docs/protocol.md#provider-files). Default:
   * none.
   */
  redirects?: 'same-site'
  signal?: AbortSignal
  /**
   * For bodies that may never end (event streams): asked once per answer for a reader of chunks, which says `true` when it
   * has enough. Whoever reads the chunks has them: the body of the reply is empty.
   */
  enough?: (headers: Record<string, string>) => ((chunk: Uint8Array) => boolean) | undefined
}

export type Reply = {
  kind: 'reply'
  status: number
  /** Names in lower case. */
  headers: Record<string, string>
  body: Uint8Array
  /** The url that answered, after redirects. */
  url: string
}

export type SendFailure =
  | 'refused' // the egress guard does not let us go there
  | 'unresolvable'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'crowded_out' // of all that strangers send at once, it took too much
  | 'bad_redirect'
  | 'broken_body'
  | 'aborted'

export type SendFailed = { kind: 'failed'; reason: SendFailure; message: string }

export type SendOutcome = Reply | SendFailed

export type Send = (request: Outbound) => Promise<SendOutcome>
