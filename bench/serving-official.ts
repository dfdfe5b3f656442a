/**
 * The official MCP server as its examples make it, one for each request, in a process of its own: what it leaves to the
 * garbage collector is paid by it and by nobody else. It is sent its two answers, says where it listens, and answers every message after that
 * with its CPU time so far.
 */
import { once } from 'node:events'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import Fastify, { type FastifyInstance } from 'fastify'

/** Text and structured content. */
function official({ unchanged, page }: Record<'unchanged' | 'page', object>): FastifyInstance {
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

const [answers] = (await once(process, 'message')) as [Record<'unchanged' | 'page', object>]
const url = await official(answers).listen({ host: '127.0.0.1', port: 0 })
process.on('message', () => process.send?.({ cpu: process.cpuUsage() }))
process.send?.({ url })
