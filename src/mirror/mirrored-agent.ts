/**
 * The agent whose feed is mirrored, as any client deals with it. It is asked over MCP, through the official client, each answer within
 * a bound of bytes; a session that broke is opened again with the next call.
 *
 * And it is listened to: the mirror subscribes to its feed events with `sync_accounts`, proves the url, and accepts what is posted
 * there when its signature is valid (specification, "Events"). An agent that offers no events, or refuses the subscription, is reported
 * and asked again later.
 */
import { hash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import { isRecord, isShallow } from '../adcp/json.js'
import { redacted } from '../adcp/redaction.js'
import { FEED_EVENTS } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import {
  createReceiver,
  createSenderKeys,
  type EventsPlace,
  isSameEvents,
  keptSubscription,
  type ReceiverReply,
} from '../events/receiver.js'
import { type Clock, jittered, pause } from '../net/clock.js'
import { askedWaitMs, type Send } from '../net/send.js'
import { createReplayGuard } from '../signing/verify.js'
import { readFeedEvents } from '../upstreams/agent/dialect.js'

const TIMEOUT_MS = 60_000
const ANSWER_BYTES = 32 * 2 ** 20 // a hundred rows of 256 KiB, and the envelope around them
const MESSAGE_CHARS = 1_000 // of what the agent says of a failure
const GOES_AWAY = [404, 408, 409, 425, 429] // the session ended, or too much is asked at once

/**
 * An account's set is replaced whole and carries no version, so whoever read it at the same time may write it without us
 * (docs/protocol.md#feed-webhooks): after a write, and after a failure, it is looked at soon, and then ever more seldom. So it
 * is where each look finds it gone: who removes it does so again, and each write is a reading of the feed.
 */
const [FIRST_LOOK_MS, LAST_LOOK_MS, LAST_RETRY_MS] = [5_000, 10 * 60_000, 5 * 60_000]
const MOST_BYTES = 1_000_000
const MESSAGE_MS = 30_000

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

export type ListenOptions = {
  /** Where the agent reaches us: https. What is posted there has to come to `port`. */
  url: string
  port: number
  /** Default: 127.0.0.1. */
  host?: string | undefined
  /** Where no account is named: the domain for which one is declared. Default: the host of `url`. */
  brand?: string | undefined
}

type ListeningOptions = {
  listen: ListenOptions
  /** Of the agent. */
  url: string
  account: string | undefined
  /** Names this mirror among the subscribers of its account. */
  source: string
  asker: FeedAsker
  send: Send
  clock: Clock
  signal: AbortSignal
  onEvent(event: Readonly<Record<string, unknown>>, bytes: number): void
  /** The subscription is active from now on. */
  onSubscribed(): void
  onProblem(problem: string): void
}

type Config = Readonly<Record<string, unknown>>

/** Another's subscription as it is sent again: an account's set is replaced whole. */
function repeated({ ext, ...config }: Config): Config {
  const { tributary: _, ...rest } = isRecord(ext) ? ext : {}
  return { ...config, ...(Object.keys(rest).length > 0 && { ext: rest }) }
}

/**
 * The body; undefined when it is larger than an event may be: the rest is ignored without closing the connection, so
 * that the answer arrives.
 */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  if (Number(request.headers['content-length']) > MOST_BYTES) return undefined
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function send(response: ServerResponse, { status, headers = {}, body = {} }: ReceiverReply): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Listens at once; rejects when the port cannot be opened. */
export async function startListening(options: ListeningOptions) {
  const { listen, url, account, source, asker, clock, signal, onEvent, onSubscribed, onProblem } = options
  const target = URL.canParse(listen.url) ? new URL(listen.url) : undefined
  if (!target) throw new Error(`expected the url at which the agent reaches this mirror, got ${listen.url}`)
  const brand = listen.brand ?? target.hostname
  const place: EventsPlace = {
    sender: { agentUrl: canonicalUrl(url) ?? url, brandJsonUrl: '' },
    url: target.href,
    subscriberId: `mirror-${hash('sha256', `${source} ${target.href}`).slice(0, 16)}`,
    types: [],
    isAsking: false,
  }
  const receive = createReceiver({
    placeOf: () => place,
    keyOf: createSenderKeys({ send: options.send, now: clock.now }),
    replay: createReplayGuard({ now: clock.now }),
    now: clock.now,
  })

  async function answer(request: IncomingMessage): Promise<ReceiverReply> {
    if (request.method !== 'POST') return { status: 405, headers: { allow: 'POST' } }
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) return { status: 415 }
    const body = await bodyOf(request)
    if (!body) return { status: 413 }
    const from = request.socket.remoteAddress ?? ''
    const receipt = await receive(place, { headers: request.headersDistinct, body, from })
    if (receipt.kind === 'event') onEvent(receipt.event, body.length)
    return receipt.reply
  }

  const server = createServer(
    { requestTimeout: MESSAGE_MS, headersTimeout: MESSAGE_MS },
    (request, response) => {
      answer(request).then(
        (reply) => send(response, reply),
        () => response.destroy(), // whoever was sending has gone
      )
    },
  )
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(listen.port, listen.host ?? '127.0.0.1', resolve)
  })

  const declared = account
    ? { account: { account_id: account } }
    : { brand: { domain: brand }, operator: brand, billing: 'operator' }

  /** What the agent keeps of the account's subscriptions now; why there is none. */
  async function sync(configs?: readonly Config[]) {
    const entry = { ...declared, ...(configs && { notification_configs: configs }) }
    const reply = await asker.ask('sync_accounts', {
      idempotency_key: `mirror-${randomUUID()}`,
      accounts: [entry],
    })
    if (reply.kind !== 'answer') return reply.message
    const kept = keptSubscription(reply.answer, place.subscriberId)
    if (kept) return kept
    const [row] = Array.isArray(reply.answer.accounts) ? reply.answer.accounts.filter(isRecord) : []
    const [error] = Array.isArray(row?.errors) ? row.errors.filter(isRecord) : []
    return typeof error?.message === 'string'
      ? asker.toTell(error.message)
      : 'it did not accept the subscription'
  }

  /** `stands`: it was active before; `written`: it is now; else why it is not. */
  async function subscribe(): Promise<'stands' | 'written' | { problem: string }> {
    const capabilities = await asker.ask('get_adcp_capabilities', {})
    if (capabilities.kind !== 'answer') return { problem: capabilities.message }
    const told = readFeedEvents(capabilities.answer)
    const types = FEED_EVENTS.filter((type) => told?.types.includes(type))
    if (!told || types.length === 0) {
      return { problem: 'it declares no feed webhooks that could be verified' }
    }
    place.sender = { ...place.sender, brandJsonUrl: told.brandJsonUrl }
    place.types = types
    const before = await sync()
    if (typeof before === 'string') return { problem: before }
    const { own, others, accountId } = before
    place.accountId = accountId
    if (before.isActive && own?.url === place.url && isSameEvents(types, own?.event_types)) return 'stands'
    if (others.some(({ authentication }) => authentication !== undefined)) {
      return { problem: 'the account has another subscription, whose secret would have to be sent again' }
    }
    const wanted = { subscriber_id: place.subscriberId, url: place.url, event_types: types, active: true }
    place.isAsking = true
    const after = await sync([...others.map(repeated), wanted]).finally(() => {
      place.isAsking = false
    })
    if (typeof after === 'string') return { problem: after }
    onSubscribed()
    return after.isActive ? 'written' : { problem: 'it keeps the subscription as paused' }
  }

  return {
    /** The port that is listened on. */
    port: (server.address() as { port: number }).port,
    /** Subscribes, and checks from time to time that the subscription is still active. */
    async follow(): Promise<void> {
      let said: string | undefined
      let before = 'stands'
      for (let looks = 0; !signal.aborted; looks += 1) {
        const state = await subscribe()
        const problem = typeof state === 'object' ? state.problem : undefined
        if (problem !== undefined && problem !== said && !signal.aborted) {
          onProblem(`${url} does not tell what changes, it is asked on schedule: ${problem}`)
        }
        const now = typeof state === 'object' ? 'failed' : state
        if (now !== before && !(before === 'written' && now === 'stands')) looks = 0
        before = now
        said = problem
        const last = problem === undefined ? LAST_LOOK_MS : LAST_RETRY_MS
        const ms = Math.min(last, FIRST_LOOK_MS * 2 ** Math.min(looks, 10))
        await pause(clock, jittered(ms, Math.random), signal)
      }
    },
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type Listening = Awaited<ReturnType<typeof startListening>>
