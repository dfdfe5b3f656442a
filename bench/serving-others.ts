/**
 * What ours is compared with: a bare Fastify route, the least that Node can do for the same answer, and the official MCP
 * server. The first two send the bytes that they were given last, in turn: `PUT /bytes` adds to them, `?first` begins anew.
 */
import { createServer, type Server } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import Fastify, { type FastifyInstance } from 'fastify'
import { isRecord } from '../src/adcp/json.js'
import { TOKENS } from './serving-options.js'

const MOST_BYTES = 8 * 1024 * 1024
const HEAD_BYTES = 600 // up to the rows of a page, about
const TAIL_BYTES = 200

/** An answer as one piece, and as the pieces in which ours writes it: text, prepared rows, text. */
type Taught = { whole: Buffer; pieces: readonly (string | Buffer)[] }

function taught(whole: Buffer): Taught {
  const isText = whole[0] === '{'.charCodeAt(0)
  if (!isText) return { whole, pieces: [whole] }
  if (whole.byteLength < HEAD_BYTES + TAIL_BYTES) return { whole, pieces: [whole.toString()] }
  const end = whole.byteLength - TAIL_BYTES
  const pieces = [
    whole.toString('latin1', 0, HEAD_BYTES),
    whole.subarray(HEAD_BYTES, end),
    whole.toString('latin1', end),
  ]
  return { whole, pieces }
}

function createAnswers() {
  let answers: Taught[] = []
  let given = 0
  return {
    teach(bytes: Buffer, isFirst: boolean): void {
      if (isFirst) answers = []
      answers.push(taught(bytes))
    },
    next: () => answers[given++ % answers.length] as Taught,
  }
}

/** A Fastify route as anybody writes it. */
export function bare(): FastifyInstance {
  const app = Fastify({ logger: false, bodyLimit: MOST_BYTES })
  const answers = createAnswers()
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  app.put('/bytes', (request, reply) => {
    answers.teach(request.body as Buffer, request.url.endsWith('?first'))
    return reply.send({})
  })
  app.post('/bare', (_request, reply) => reply.type('application/json').send(answers.next().whole))
  return app
}

/** By the header that they send; undefined stands for who sends none. */
const CALLERS = new Set([undefined, ...Object.values(TOKENS).map((token) => `Bearer ${token}`)])

/**
 * The least that any server must do for the same answer: it reads and parses the question, knows the caller, and writes the
 * answer with the same headers in as many pieces as ours.
 */
export function least(): Server {
  const answers = createAnswers()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (request.method === 'PUT') {
        answers.teach(Buffer.concat(chunks), request.url?.endsWith('?first') ?? false)
        return void response.end()
      }
      const isKnown = CALLERS.has(request.headers.authorization)
      if (!isKnown || !isRecord(JSON.parse(Buffer.concat(chunks).toString()))) {
        return void response.writeHead(400).end()
      }
      const { whole, pieces } = answers.next()
      const length = ['content-length', String(whole.byteLength), 'x-request-id', 'req-00000000']
      response.writeHead(200, [...length, 'content-type', 'application/json', 'vary', 'Accept-Encoding'])
      response.cork()
      for (const piece of pieces.slice(0, -1)) response.write(piece)
      response.end(pieces.at(-1))
      response.uncork()
    })
  })
  return Object.assign(server, { keepAliveTimeout: 72_000, requestTimeout: 0, timeout: 0 })
}

/** The official server as its examples make it: one for each request, text and structured content. */
export function official(unchanged: unknown, page: unknown): FastifyInstance {
  const app = Fastify({ logger: false })
  app.post('/mcp', async (request, reply) => {
    const server = new McpServer({ name: 'official', version: '0' })
    const { arguments: given } = (request.body as { params: { arguments: Record<string, unknown> } }).params
    const answer = (given.if_wholesale_feed_version ? unchanged : page) as Record<string, unknown>
    server.registerTool('get_signals', { description: 'x' }, () => ({
      content: [{ type: 'text', text: JSON.stringify(answer) }],
      structuredContent: answer,
    }))
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: undefined,
      enableJsonResponse: true,
    })
    await server.connect(transport as never)
    reply.hijack()
    reply.raw.on('close', () => void server.close())
    await transport.handleRequest(request.raw, reply.raw, request.body)
  })
  return app
}
