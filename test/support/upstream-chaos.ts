/**
 * An upstream for the chaos test, run as a process of its own so that it can be killed: its feed never changes, and
 * nearly every second answer is wrong in one of the ways seen in the wild. Arguments: port, seed, rows. Prints its
 * port, then a word for each answer: what was done to it.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export const MISDEEDS = [
  'hang',
  'reset',
  'unavailable',
  'garbage',
  'half_page',
  'cursor_loop',
  'flapping',
  'drip',
  'wrong_type',
  'incomplete',
] as const
type Misdeed = (typeof MISDEEDS)[number]

const [port = '0', seed = '1', rowCount = '400'] = process.argv.slice(2)
const rows = Array.from({ length: Number(rowCount) }, (_, at) => ({
  signal_agent_segment_id: `segment_${at}`,
  name: `Signal ${at}`,
  description: 'Shoppers who compared models. '.repeat(10),
  signal_type: 'owned',
  deployments: [{ type: 'platform', platform: 'dv360', is_live: false }],
}))
let state = Number(seed)
let answers = 0

/** A small linear congruential generator: the same seed does the same harm. */
function random(): number {
  state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
  return state / 4_294_967_296
}

function choose(): Misdeed | undefined {
  if (random() < 0.6) return undefined
  return MISDEEDS[Math.floor(random() * MISDEEDS.length)]
}

function page(args: Record<string, unknown>, misdeed: Misdeed | undefined): unknown {
  const version = misdeed === 'flapping' ? `flap-${answers++}` : 'v1'
  const base = { status: 'completed', wholesale_feed_version: version, cache_scope: 'public' }
  if (args.if_wholesale_feed_version === version && random() < 0.7) return { ...base, unchanged: true }
  const { cursor } = (args.pagination ?? {}) as { cursor?: string }
  const from = Number(cursor ?? 0)
  const to = Math.min(rows.length, from + 100)
  const more = to < rows.length || misdeed === 'cursor_loop'
  return {
    ...base,
    signals: rows.slice(from, to),
    pagination: { has_more: more, ...(more && { cursor: misdeed === 'cursor_loop' ? '0' : String(to) }) },
    ...(misdeed === 'incomplete' && { incomplete: [{ scope: 'wholesale_feed', description: 'no time' }] }),
  }
}

function result(method: string, params: Record<string, unknown>, misdeed: Misdeed | undefined): unknown {
  if (method === 'initialize') {
    return { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'chaos', version: '1' } }
  }
  const structuredContent =
    params.name === 'get_signals'
      ? page((params.arguments ?? {}) as Record<string, unknown>, misdeed)
      : { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
  return { content: [{ type: 'text', text: 'ok' }], structuredContent }
}

function drip(response: ServerResponse, text: string): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  let at = 0
  const timer = setInterval(() => response.write(text[at++ % text.length] as string), 10)
  response.on('close', () => clearInterval(timer))
}

function misbehave(misdeed: Misdeed, response: ServerResponse, text: string): boolean {
  const json = { 'content-type': 'application/json' }
  if (misdeed === 'hang') return true
  if (misdeed === 'reset') response.socket?.resetAndDestroy()
  else if (misdeed === 'unavailable') {
    response.writeHead(503, json)
    response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"warming up"}}')
  } else if (misdeed === 'garbage')
    response.writeHead(200, json).end(`{"jsonrpc":"2.0",${text.slice(40, 400)}`)
  else if (misdeed === 'half_page') response.writeHead(200, json).end(text.slice(0, text.length / 2))
  else if (misdeed === 'drip') drip(response, text)
  else if (misdeed === 'wrong_type')
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text)
  else return false
  return true
}

if (process.argv[1]?.endsWith('upstream-chaos.js')) {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (request.method !== 'POST') return void response.writeHead(404).end()
      const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString())
      if (id === undefined) return void response.writeHead(202).end()
      const misdeed = choose()
      process.stdout.write(`${misdeed ?? 'well'}\n`)
      const text = JSON.stringify({ jsonrpc: '2.0', id, result: result(method, params ?? {}, misdeed) })
      if (misdeed && misbehave(misdeed, response, text)) return
      response.writeHead(200, { 'content-type': 'application/json' }).end(text)
    })
  })
  server.listen(Number(port), '127.0.0.1', () => {
    process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`)
  })
}
