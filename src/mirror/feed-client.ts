/**
 * Reads an agent's feed as any client does: over MCP, through the official client, each answer within a bound of bytes; a session
 * that broke is opened again with the next call. One reading of the feed into a copy ends `unchanged`, or after a walk of all pages
 * under one version (specification, "mid-pagination"). Versions have no parts that a client could check against the rows, so these
 * are checked instead: every page carries the same ones, "unchanged" names those that were sent, and as many rows come as were
 * announced.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '../adcp/json.js'
import { backoffMs, type Clock, pause } from '../net/clock.js'
import type { Copy, CopyRow, CopyState, Replacement } from './copy.js'

const TIMEOUT_MS = 60_000
const ANSWER_BYTES = 32 * 2 ** 20 // a hundred rows of 256 KiB, and the envelope around them
const GOES_AWAY = [404, 408, 409, 425, 429] // the session ended, or too much is asked at once
const PAGE = 100
const FIRST_PAGE = { pagination: { max_results: PAGE } }
const MAX_RESTARTS = 10
const MAX_ATTEMPTS = 6 // of one page: a walk outlives a restart of the agent, and being slowed down by it
const FIRST_WAIT_MS = 1_000

type FeedReply =
  | { kind: 'answer'; answer: Readonly<Record<string, unknown>> }
  /** The agent refuses the request and will refuse it again. `field`: the member that it names. */
  | { kind: 'refused'; message: string; field?: string }
  /** No answer, or one that asks to come back later. */
  | { kind: 'trouble'; message: string; retryAfterMs?: number }
  /** An answer that is larger than any page may be. */
  | { kind: 'unsound'; message: string }

export type FeedAsker = {
  ask(task: string, args: Readonly<Record<string, unknown>>): Promise<FeedReply>
  /** A request that still waits for its answer ends as `trouble`. */
  close(): Promise<void>
}

type AskerOptions = {
  /** Of the agent's MCP endpoint. */
  url: string
  token: string | undefined
  /** Origins that requests for a domain go to instead. */
  hosts: Readonly<Record<string, string>>
}

/** `fetch` that cuts an answer to a POST at `ANSWER_BYTES` and reports it. */
function boundedFetch(hosts: AskerOptions['hosts'], onTooLarge: () => void): typeof fetch {
  return async (target, init) => {
    const url = new URL(String(target))
    const origin = hosts[url.hostname]
    const reply = await fetch(origin ? new URL(`${url.pathname}${url.search}`, origin) : url, init)
    if (!reply.body || init?.method !== 'POST') return reply
    let left = ANSWER_BYTES
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        left -= chunk.length
        if (left >= 0) return controller.enqueue(chunk)
        onTooLarge()
        controller.error(new Error('the answer is too large'))
      },
    })
    const { status, statusText, headers } = reply
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
  return isRecord(answer.adcp_error) ? refusalOf(answer.adcp_error) : { kind: 'answer', answer }
}

/** Connects with the first question. */
export function createFeedAsker({ url, token, hosts }: AskerOptions): FeedAsker {
  const requestInit = { headers: { ...(token && { authorization: `Bearer ${token}` }) } }
  let client: Client | undefined
  let isTooLarge = false
  const bounded = boundedFetch(hosts, () => {
    isTooLarge = true
    void close() // the client waits for the end of a stream that broke
  })

  async function connected(): Promise<Client> {
    if (client) return client
    const opened = new Client({ name: 'tributary-mirror', version: '1' })
    client = opened // from now on, so that it can be closed while it connects
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: bounded })
    await opened.connect(transport, { timeout: TIMEOUT_MS })
    return opened
  }

  async function close(): Promise<void> {
    const closing = client
    client = undefined
    await closing?.close().catch(() => {}) // an agent that cannot be reached keeps no session
  }

  return {
    async ask(task, args) {
      isTooLarge = false
      try {
        const speaking = await connected()
        const call = { name: task, arguments: args }
        return replyOf(await speaking.callTool(call, undefined, { timeout: TIMEOUT_MS }))
      } catch (error) {
        await close()
        if (isTooLarge) return { kind: 'unsound', message: `an answer has more than ${ANSWER_BYTES} bytes` }
        return failureOf(error)
      }
    },
    close,
  }
}

export type FeedReading =
  | { kind: 'unchanged'; state: CopyState }
  | { kind: 'replaced'; state: CopyState }
  /** The agent's events were applied, and the copy is now what the agent's feed is. */
  | { kind: 'applied'; state: CopyState }
  | { kind: 'failed'; reason: FeedFailure; message: string }

/**
 * `refused`: the agent refuses and will refuse again. `trouble`: there was no answer. `unsound`: the answer is no valid feed.
 * `moving`: it changed during every walk. `unwritten`: the copy could not be written.
 */
type FeedFailure = 'refused' | 'trouble' | 'unsound' | 'moving' | 'unwritten'

type ReadingOptions = {
  asker: FeedAsker
  /** Filters and account. */
  question: Readonly<Record<string, unknown>>
  copy: Copy
  /** What the copy is, where the agent may answer that this is still the feed. */
  held: CopyState | undefined
  source: string
  clock: Clock
  random(): number
  signal: AbortSignal
}

type Versions = Pick<CopyState, 'version' | 'pricing' | 'scope'>
type Failure = Extract<FeedReading, { kind: 'failed' }>
type Page = { rows: readonly CopyRow[]; cursor: string | undefined; total: number | undefined }

const failed = (reason: FeedFailure, message: string): Failure => ({ kind: 'failed', reason, message })

/** The value, when it is a text that says something. */
export const textIn = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)

function versionsOf(answer: Readonly<Record<string, unknown>>): Versions {
  const version = textIn(answer.wholesale_feed_version)
  const pricing = textIn(answer.pricing_version)
  const scope = textIn(answer.cache_scope)
  return { ...(version && { version }), ...(pricing && { pricing }), ...(scope && { scope }) }
}

function isSame(one: Versions, other: Versions): boolean {
  return one.version === other.version && one.pricing === other.pricing && one.scope === other.scope
}

/** "Unchanged" need not repeat the versions; when it names other ones than ours, it is about another feed. */
export function confirms(
  { unchanged, ...answer }: Readonly<Record<string, unknown>>,
  held: CopyState,
): boolean {
  return unchanged === true && isSame(held, { ...held, ...versionsOf(answer) })
}

/** The arguments that let an agent answer "unchanged" for a copy of these versions. */
export function conditionOf({ version, pricing }: Versions): Record<string, string> {
  if (version === undefined) return {}
  return { if_wholesale_feed_version: version, ...(pricing && { if_pricing_version: pricing }) }
}

/** The rows of a page and what follows it; undefined when it is none. */
function pageOf({ signals, pagination }: Readonly<Record<string, unknown>>): Page | undefined {
  if (!Array.isArray(signals)) return undefined
  const rows: CopyRow[] = []
  for (const row of signals as unknown[]) {
    const id = isRecord(row) ? textIn(row.signal_agent_segment_id) : undefined
    if (!isRecord(row) || id === undefined) return undefined
    rows.push({ id, row })
  }
  const { has_more, cursor, total_count } = isRecord(pagination) ? pagination : {}
  const next = has_more === true ? textIn(cursor) : undefined
  if (has_more === true && next === undefined) return undefined
  return { rows, cursor: next, total: typeof total_count === 'number' ? total_count : undefined }
}

/** Brings the copy up to date. Rejects when the copy cannot be written; what the agent does is an outcome. */
export async function readFeed(options: ReadingOptions): Promise<FeedReading> {
  const { asker, question, copy, held, source, clock, random, signal } = options

  async function patiently(asked: Readonly<Record<string, unknown>>): Promise<FeedReply> {
    for (let failures = 1; ; failures += 1) {
      if (signal.aborted) return { kind: 'trouble', message: 'the mirror was closed' }
      const reply = await asker.ask('get_signals', { discovery_mode: 'wholesale', ...question, ...asked })
      if (reply.kind !== 'trouble' || failures === MAX_ATTEMPTS) return reply
      const { retryAfterMs } = reply
      await pause(clock, backoffMs({ failures, refreshMs: FIRST_WAIT_MS, random, retryAfterMs }), signal)
    }
  }

  /** All pages from the first one on; undefined when the feed moved meanwhile. */
  async function walk(first: FeedReply, into: Replacement): Promise<FeedReading | undefined> {
    const ids = new Set<string>()
    const cursors = new Set<string>()
    let versions: Versions | undefined
    let received = 0
    for (let reply = first; ; ) {
      if (reply.kind !== 'answer') {
        if (versions && reply.kind === 'refused' && reply.field === 'pagination.cursor') return undefined
        return failed(reply.kind, reply.message)
      }
      const { answer } = reply
      versions ??= versionsOf(answer)
      if (!isSame(versions, versionsOf(answer))) return undefined
      const page = pageOf(answer)
      if (!page) return failed('unsound', 'a page holds no rows that could be kept')
      // Of a segment that is listed twice the first row is kept.
      const fresh = page.rows.filter(({ id }) => !ids.has(id) && ids.add(id))
      await into.add(fresh)
      received += page.rows.length
      const { cursor, total } = page
      if (cursor === undefined) {
        if (total !== undefined && total !== received)
          return failed('unsound', `it announced ${total} signals and gave ${received}`)
        const incomplete = Array.isArray(answer.incomplete) ? answer.incomplete : []
        const state = { source, ...versions, rows: ids.size, walkedAt: clock.now(), incomplete }
        await into.commit(state)
        return { kind: 'replaced', state }
      }
      if (cursors.has(cursor)) return failed('unsound', 'its pages lead back to one that was read')
      cursors.add(cursor)
      reply = await patiently({ pagination: { max_results: PAGE, cursor } })
    }
  }

  let reply = await patiently({ ...FIRST_PAGE, ...(held && conditionOf(held)) })
  if (held?.version !== undefined && reply.kind === 'answer') {
    // An agent that takes no tokens answers with its first page; the versions on it say the same as "unchanged".
    const { answer } = reply
    if (confirms(answer, held) || isSame(held, versionsOf(answer))) return { kind: 'unchanged', state: held }
    // "Unchanged" under another version than ours proves nothing about our rows.
    if (answer.unchanged === true) reply = await patiently(FIRST_PAGE)
  }
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts += 1) {
    if (restarts > 0) reply = await patiently(FIRST_PAGE)
    if (reply.kind !== 'answer') return failed(reply.kind, reply.message)
    const into = await copy.replace()
    const outcome = await walk(reply, into).catch(async (error: unknown) => {
      await into.abandon().catch(() => {}) // the error that matters is the one that ended the walk
      throw error
    })
    if (outcome?.kind !== 'replaced') await into.abandon()
    if (outcome) return outcome
  }
  return failed('moving', 'the feed changed during every walk')
}
