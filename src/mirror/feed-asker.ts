/**
 * Asks the agent whose feed is mirrored, as any client does: over MCP, through the official client, each answer within a bound of
 * bytes. A session that broke is opened again with the next call.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import { isRecord, isShallow } from '../adcp/json.js'
import { redacted } from '../adcp/redaction.js'
import { askedWaitMs } from '../net/send.js'

const TIMEOUT_MS = 60_000
const ANSWER_BYTES = 32 * 2 ** 20 // a hundred rows of 256 KiB, and the envelope around them
const MESSAGE_CHARS = 1_000 // of what the agent says of a failure
const GOES_AWAY = [404, 408, 409, 425, 429] // the session ended, or too much is asked at once

export type FeedReply =
  | { kind: 'answer'; answer: Readonly<Record<string, unknown>> }
  /** The agent refuses the request and will refuse it again. `field`: the member that it names. */
  | { kind: 'refused'; message: string; field?: string }
  /** No answer, or one that asks to come back later. */
  | { kind: 'trouble'; message: string; retryAfterMs?: number }
  /** An answer that is larger, or nested deeper, than any page may be. */
  | { kind: 'unsound'; message: string }

export type FeedAsker = {
  ask(task: string, args: Readonly<Record<string, unknown>>): Promise<FeedReply>
  /** What may be told of the agent's words: they may be a whole page, and repeat the key that it refuses. */
  toTell(words: string): string
  /** A request that still waits for its answer ends as `trouble`. */
  close(): Promise<void>
}

type AskerOptions = {
  /** Of the agent's MCP endpoint. */
  url: string
  token: string | undefined
  /** Origins that requests for a domain go to instead. */
  hosts: Readonly<Record<string, string>>
  /** How long an answer may take, to its last byte. */
  timeoutMs?: number
}

type Heard = {
  /** The agent asks for a pause: ms. */
  onWait(ms: number): void
  onTooLarge(): void
}

/**
 * `fetch` that cuts every body at `ANSWER_BYTES`, and hears of pauses that are asked for. The client bounds its questions in time, but
 * not what it posts besides, and it reads whatever a refusal says; only what an agent streams unasked may take for ever.
 */
function boundedFetch(
  hosts: AskerOptions['hosts'],
  timeoutMs: number,
  { onWait, onTooLarge }: Heard,
): typeof fetch {
  return async (target, asked) => {
    const limits = [AbortSignal.timeout(timeoutMs), ...(asked?.signal ? [asked.signal] : [])]
    const init = asked?.method === 'POST' ? { ...asked, signal: AbortSignal.any(limits) } : asked
    const url = new URL(String(target))
    const origin = hosts[url.hostname]
    const reply = await fetch(origin ? new URL(`${url.pathname}${url.search}`, origin) : url, init)
    const { status, statusText, headers } = reply
    const wait = headers.get('retry-after')
    if (wait !== null) onWait(askedWaitMs({ 'retry-after': wait }, Date.now()) ?? 0)
    if (!reply.body) return reply
    let left = ANSWER_BYTES
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        left -= chunk.length
        if (left >= 0) return controller.enqueue(chunk)
        onTooLarge()
        controller.error(new Error('the answer is too large'))
      },
    })
    return new Response(reply.body.pipeThrough(bound), { status, statusText, headers })
  }
}

/** What the client threw: a status of HTTP, an error of JSON-RPC, or the network's. */
function failureOf(error: unknown): FeedReply {
  const { message, code, cause } = error as Error & { code?: unknown }
  const why = cause instanceof Error && cause.message ? `${message}: ${cause.message}` : message
  if (error instanceof McpError) {
    const passes = [ErrorCode.RequestTimeout, ErrorCode.ConnectionClosed, ErrorCode.InternalError].includes(
      error.code,
    )
    return { kind: passes ? 'trouble' : 'refused', message: why }
  }
  if (code === 401) return { kind: 'refused', message: 'it asks for a key (401)' }
  if (code === 403) return { kind: 'refused', message: 'it does not accept this key (403)' }
  const isFinal = typeof code === 'number' && code >= 400 && code < 500 && !GOES_AWAY.includes(code)
  return { kind: isFinal ? 'refused' : 'trouble', message: why }
}

/** An error of the protocol: `recovery` says whether to ask again (specification, "Errors"). */
function refusalOf(error: Readonly<Record<string, unknown>>): FeedReply {
  const message = `${error.code}: ${error.message}`
  if (error.recovery === 'transient') {
    const seconds = error.retry_after
    return { kind: 'trouble', message, ...(typeof seconds === 'number' && { retryAfterMs: seconds * 1_000 }) }
  }
  return { kind: 'refused', message, ...(typeof error.field === 'string' && { field: error.field }) }
}

/** The structured content, or else the JSON of the text, as agents of older revisions answer. */
function contentOf({ structuredContent, content }: Readonly<Record<string, unknown>>): unknown {
  if (structuredContent !== undefined) return structuredContent
  const [first] = Array.isArray(content) ? content : []
  try {
    return isRecord(first) && typeof first.text === 'string' ? JSON.parse(first.text) : undefined
  } catch {
    return undefined // a text for people, no answer that can be read
  }
}

function replyOf(result: Readonly<Record<string, unknown>>): FeedReply {
  const answer = contentOf(result)
  if (!isRecord(answer)) return { kind: 'trouble', message: 'its answer holds no JSON object' }
  if (!isShallow(answer)) return { kind: 'unsound', message: 'its answer is nested too deep' }
  return isRecord(answer.adcp_error) ? refusalOf(answer.adcp_error) : { kind: 'answer', answer }
}

/** Connects with the first question. */
export function createFeedAsker({ url, token, hosts, timeoutMs = TIMEOUT_MS }: AskerOptions): FeedAsker {
  const requestInit = { headers: { ...(token && { authorization: `Bearer ${token}` }) } }
  let client: Client | undefined
  let isTooLarge = false
  let waitMs: number | undefined // what the answers of HTTP to this question ask for
  const bounded = boundedFetch(hosts, timeoutMs, {
    onWait(ms) {
      waitMs = ms
    },
    onTooLarge() {
      isTooLarge = true
      void close() // the client waits for the end of a stream that broke
    },
  })

  async function connected(): Promise<Client> {
    if (client) return client
    const opened = new Client({ name: 'tributary-mirror', version: '1' })
    client = opened // from now on, so that it can be closed while it connects
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: bounded })
    await opened.connect(transport, { timeout: timeoutMs })
    return opened
  }

  async function close(): Promise<void> {
    const closing = client
    client = undefined
    await closing?.close().catch(() => {}) // an agent that cannot be reached keeps no session
  }

  async function askOnce(name: string, args: Readonly<Record<string, unknown>>): Promise<FeedReply> {
    try {
      const speaking = await connected()
      return replyOf(await speaking.callTool({ name, arguments: args }, undefined, { timeout: timeoutMs }))
    } catch (error) {
      await close()
      if (isTooLarge) return { kind: 'unsound', message: `an answer has more than ${ANSWER_BYTES} bytes` }
      return failureOf(error)
    }
  }

  const toTell = (words: string) => redacted(words, token ? [token] : []).slice(0, MESSAGE_CHARS)

  return {
    async ask(task, args) {
      isTooLarge = false
      waitMs = undefined
      const reply = await askOnce(task, args)
      if (reply.kind === 'answer') return reply
      const message = toTell(reply.message)
      if (reply.kind === 'trouble' && waitMs !== undefined) return { retryAfterMs: waitMs, ...reply, message }
      return { ...reply, message }
    },
    toTell,
    close,
  }
}
