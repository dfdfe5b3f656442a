/**
 * A demo agent over MCP, on the official SDK's server so that nothing of our client side is faked: Streamable HTTP,
 * stateless, JSON answers. A stateless transport serves one request (docs/decisions.md#serving-from-bytes).
 */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { type Agent, TASKS } from './agent.js'
import { type Handler, sendJson } from './host.js'

// A new Ajv per server would be the largest part of a request's cost (docs/decisions.md#serving-from-bytes).
const jsonSchemaValidator = new AjvJsonSchemaValidator()

// Permissive: the agent checks what it uses, so that a refusal carries its envelope (docs/protocol.md#mcp).
const inputSchema = { type: 'object' as const, additionalProperties: true }
const tools = Object.entries(TASKS).map(([name, description]) => ({ name, description, inputSchema }))

function openServer(agent: Agent, lose: () => void): Server {
  const server = new Server(
    { name: agent.party.name, version: '1.0.0' },
    { capabilities: { tools: {} }, jsonSchemaValidator },
  )
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const { failed, message, payload } = agent.call(params.name, params.arguments)
    if (agent.losesAnswer(params.name)) lose()
    const text = failed ? JSON.stringify({ adcp_error: payload.adcp_error }) : message
    return {
      content: [{ type: 'text', text }],
      structuredContent: payload,
      ...(failed ? { isError: true } : {}),
    }
  })
  return server
}

/** Serves an agent at the path of its url. */
export function mcpHandler(agent: Agent): Handler {
  const { pathname } = new URL(agent.party.url)
  return async ({ request, response, url }) => {
    if (url.pathname !== pathname) return sendJson(response, 404, { error: 'not found' })
    if (request.method !== 'POST') return sendJson(response, 405, { error: 'POST only' }, { allow: 'POST' })
    const server = openServer(agent, () => request.socket.destroy())
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    response.once('close', () => void server.close())
    await server.connect(transport)
    await transport.handleRequest(request, response)
  }
}
