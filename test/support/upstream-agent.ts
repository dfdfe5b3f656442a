/** Signals agents for tests: on the official MCP and A2A server SDKs, and raw ones that may misbehave. */
import { randomUUID } from 'node:crypto'
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

export type TaskHandler = (task: string, args: Record<string, unknown>) => Record<string, unknown> | undefined

/** The same, of an agent that may keep its caller waiting. */
type PatientHandler = (
  ...asked: Parameters<TaskHandler>
) => ReturnType<TaskHandler> | Promise<ReturnType<TaskHandler>>

export type RunningAgent = { url: string; origin: string; close(): Promise<void> }

export async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? undefined : JSON.parse(text)
}

/** A bare HTTP server on a free port: the handler does what it likes with each request. */
export async function startHttp(
  handler: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>,
  path = '/mcp',
  port = 0,
): Promise<RunningAgent & { server: HttpServer }> {
  const server = createServer((request, response) => {
    Promise.resolve(handler(request, response)).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    server,
    origin,
    url: `${origin}${path}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export type ToolList = { name: string; inputSchema: { type: 'object'; [word: string]: unknown } }[]

const PLAIN: ToolList = [{ name: 'get_signals', inputSchema: { type: 'object' } }]

function mcpServer(handler: PatientHandler, tools: ToolList): Server {
  const server = new Server({ name: 'test-agent', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const payload = await handler(params.name, params.arguments ?? {})
    if (!payload) return { isError: true, content: [{ type: 'text', text: `Unknown tool: ${params.name}` }] }
    return {
      ...(payload.adcp_error ? { isError: true } : {}),
      content: [{ type: 'text', text: 'done' }],
      structuredContent: payload,
    }
  })
  return server
}

export type McpFlavour = { sessions: boolean; json: boolean; port: number }

/** An agent on the official SDK's server. `forget` loses every session, as an idle timeout would. */
export async function startMcpAgent(
  handler: PatientHandler,
  { sessions = false, json = true, port = 0 }: Partial<McpFlavour> = {},
  tools: ToolList = PLAIN,
): Promise<RunningAgent & { server: HttpServer; forget(): void; sessionsOpened(): number }> {
  const open = new Map<string, StreamableHTTPServerTransport>()
  let opened = 0

  async function transportFor(request: IncomingMessage): Promise<StreamableHTTPServerTransport | undefined> {
    const id = request.headers['mcp-session-id']
    if (sessions && typeof id === 'string') return open.get(id)
    const transport: StreamableHTTPServerTransport = sessions
      ? new StreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          enableJsonResponse: json,
          onsessioninitialized: (session) => {
            opened += 1
            open.set(session, transport)
          },
        })
      : new StreamableHTTPServerTransport({ enableJsonResponse: json })
    await mcpServer(handler, tools).connect(transport as never)
    return transport
  }

  const running = await startHttp(
    async (request, response) => {
      if (request.method !== 'POST') {
        response.writeHead(405).end()
        return
      }
      const body = await readJson(request)
      const transport = await transportFor(request)
      if (!transport) {
        response.writeHead(404, { 'content-type': 'application/json' })
        response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        return
      }
      await transport.handleRequest(request, response, body)
    },
    '/mcp',
    port,
  )
  return { ...running, forget: () => open.clear(), sessionsOpened: () => opened }
}
