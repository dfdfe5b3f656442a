/** A real server on port 0 over a small feed of fixed rows, and the calls that tests make on it. */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { pino } from 'pino'
import type { Test } from 'tap'
import { adcpError } from '../../src/adcp/error.js'
import type { LookupQuery, Page, Reader, WholesaleAnswer, WholesaleQuery } from '../../src/feed/query.js'
import { createServer, type ServerOptions } from '../../src/server/app.js'
import type { SignalsFeed } from '../../src/server/tasks/get-signals.js'
import type { UpstreamStatus } from '../../src/upstreams/status.js'

export const BUYER_TOKEN = 'buyer-token'
export const OTHER_TOKEN = 'other-token'
export const OPERATOR_TOKEN = 'operator-token'
export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

export function row(n: number) {
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: `s${n}` },
    signal_id: { source: 'catalog', data_provider_domain: 'p.example', id: `s${n}` },
    signal_agent_segment_id: `sig_${n}`,
    name: `Signal "${n}" \\ ünï ☃`,
    description: 'A row',
    signal_type: 'marketplace',
    deployments: [{ type: 'platform', platform: 'dsp', is_live: false }],
    pricing_options: [{ pricing_option_id: `o${n}`, model: 'cpm', cpm: 1.5, currency: 'USD' }],
  }
}

/** The feed's contract over rows in memory: pages, tokens and lookups, without merging or filters. */
export function fixedFeed(count: number, ready = true): SignalsFeed {
  const rows = Array.from({ length: count }, (_, n) => row(n))
  const versions = { feedVersion: 'f1', pricingVersion: 'p1', cacheScope: 'public' as const }
  const bytes = (list: object[]) => list.map((one, at) => Buffer.from((at ? ',' : '') + JSON.stringify(one)))
  const seen = (reader: Reader) =>
    reader.visibility === 'full' ? rows : rows.map(({ pricing_options: _, ...rest }) => rest)

  function wholesale(query: WholesaleQuery, reader: Reader): WholesaleAnswer {
    if (query.ifFeedVersion === 'f1' && (query.ifPricingVersion ?? 'p1') === 'p1') {
      return { kind: 'unchanged', ...versions }
    }
    const at = query.cursor === undefined ? 0 : Number(query.cursor)
    if (!Number.isInteger(at)) {
      const error = adcpError('INVALID_REQUEST', 'The cursor is not ours.', { field: 'pagination.cursor' })
      return { kind: 'refused', error }
    }
    const list = seen(reader).slice(at, at + query.maxResults)
    const next = at + list.length
    const page: Page = {
      kind: 'page',
      ...versions,
      rows: bytes(list),
      count: list.length,
      total: count,
      warnings: [],
    }
    return next < count ? { ...page, cursor: String(next) } : page
  }

  function lookup({ refs }: LookupQuery, reader: Reader): Page {
    const wanted = new Set(refs.map((ref) => ref.signal_id))
    const list = seen(reader).filter((one) => wanted.has(one.signal_ref.signal_id))
    return {
      kind: 'page',
      ...versions,
      rows: bytes(list),
      count: list.length,
      total: list.length,
      warnings: [],
    }
  }

  return { current: () => (ready ? rows : undefined), wholesale, lookup }
}

/** What an answer holds is for the test to say. */
type Parsed = ReturnType<typeof JSON.parse>
export type Reply = { status: number; headers: Headers; text: string; json: Parsed }

export async function startServer(t: Test, options: Partial<ServerOptions> = {}) {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
  const app = createServer({
    publicUrl: 'http://tributary.example',
    version: '0.0.0',
    feed: fixedFeed(120),
    upstreams: { statuses: (): UpstreamStatus[] => [] },
    facts: () => ({ providerDomains: ['p.example'], servesOwned: true, accountOverlays: true }),
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'buyer', tokenSha256: sha256(BUYER_TOKEN), role: 'buyer', accounts: { acc_1: {} } },
        { id: 'other', tokenSha256: sha256(OTHER_TOKEN), role: 'buyer', accounts: { acc_2: {} } },
        { id: 'op', tokenSha256: sha256(OPERATOR_TOKEN), role: 'operator' },
      ],
    },
    log,
    ...options,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => app.close())

  async function send(path: string, init: RequestInit): Promise<Reply> {
    const response = await fetch(url + path, init)
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
