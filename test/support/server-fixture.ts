/** A real server on port 0 over a small feed, and the calls that tests make on it. */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { Feed } from '../../src/feed/feed.js'
import { createApp, type ServerOptions } from '../../src/server/app.js'
import { type AdmissionOptions, createAdmission } from '../../src/server/door/admission.js'
import type { GetSignalsOptions } from '../../src/tasks/get-signals.js'
import { fetchServed } from './fetch-served.js'
import { healthOf } from './health.js'
import { noWayOut } from './no-way-out.js'
import { onlyLookups } from './only-lookups.js'
import { plainFeed } from './server-feed.js'

export const BUYER_TOKEN = 'buyer-token'
export const OTHER_TOKEN = 'other-token'
export const OPERATOR_TOKEN = 'operator-token'
export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

const CALLERS: AdmissionOptions['callers'] = {
  anonymous: 'metadata',
  keys: [
    { id: 'buyer', tokenSha256: sha256(BUYER_TOKEN), role: 'buyer', accounts: { acc_1: {} } },
    { id: 'other', tokenSha256: sha256(OTHER_TOKEN), role: 'buyer', accounts: { acc_2: {} } },
    { id: 'op', tokenSha256: sha256(OPERATOR_TOKEN), role: 'operator' },
  ],
}

/** What an answer holds is for the test to say. */
type Parsed = ReturnType<typeof JSON.parse>
export type Reply = { status: number; headers: Headers; text: string; json: Parsed }

export type FixtureFeed = GetSignalsOptions['feed'] & Pick<Feed, 'moment' | 'see'>
export type FixtureOptions = Partial<Omit<ServerOptions, 'feed'> & AdmissionOptions & { feed: FixtureFeed }>

export async function startServer(t: Test, options: FixtureOptions = {}) {
  const {
    callers = CALLERS,
    jwt,
    rateLimit,
    send: sendOut = noWayOut,
    feed = plainFeed(120),
    ...rest
  } = options
  const { now = Date.now } = rest
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
  const app = createApp({
    publicUrl: 'http://tributary.example',
    version: '0.0.0',
    feed,
    discovery: onlyLookups(feed),
    upstreams: healthOf(() => []),
    facts: () => ({ providerDomains: ['p.example'], servesOwned: true, accountOverlays: true }),
    admission: createAdmission({
      callers,
      ...(jwt && { jwt }),
      ...(rateLimit && { rateLimit }),
      ...{ send: sendOut, now },
    }),
    ...{ trustedProxies: [], tasks: [], previews: [], replayTtlSeconds: 86_400 },
    declaredAccounts: async () => false,
    isStopping: () => false,
    ...{ log, now },
    ...rest,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => app.close())

  async function send(path: string, init: RequestInit): Promise<Reply> {
    const response = await fetchServed(url + path, init)
    const text = await response.text()
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {
      json = undefined // not every answer is JSON: metrics, 202
    }
    return { status: response.status, headers: response.headers, text, json }
  }

  /** POSTs a body; an object as JSON. */
  function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
    const base = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    return send(path, { method: 'POST', headers: { ...base, ...headers }, body: text as string })
  }

  /** Calls a tool over MCP as a client of today with the buyer's key; gives structuredContent. */
  async function call(name: string, args: unknown, headers: Record<string, string> = {}) {
    const reply = await post(
      '/mcp',
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
      { authorization: `Bearer ${BUYER_TOKEN}`, 'mcp-protocol-version': '2025-06-18', ...headers },
    )
    return reply.json?.result?.structuredContent
  }

  /** Writes raw bytes on a socket and gives what comes back until the server ends it. */
  function raw(bytes: string | Uint8Array): Promise<string> {
    const { port, hostname } = new URL(url)
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname)
      let text = ''
      socket.setEncoding('utf8')
      socket.on('data', (chunk) => {
        text += chunk
      })
      socket.on('close', () => resolve(text))
      socket.on('error', reject)
      socket.write(bytes)
    })
  }

  return { app, url, lines, send, post, call, raw }
}
