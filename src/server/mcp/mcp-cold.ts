/**
 * Everything of MCP that is not a tool call: initialize, tools/list, ping, unknown methods. The official server
 * answers them, one instance a message and nothing kept (docs/protocol.md#mcp: stateless), over a transport in
 * memory: HTTP is `mcp.ts`'s business. The validator is shared, because making one is most of what a server costs
 * (docs/decisions.md#serving-from-bytes).
 */
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  ListToolsRequestSchema,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import type { Task } from '../../tasks/task.js'
import { toolSchema } from './tool-schema.js'

const jsonSchemaValidator = new AjvJsonSchemaValidator()

const INSTRUCTIONS =
  'Tributary offers the signals of many signals agents as one feed: each signal once, with every verified way to buy ' +
  'it. Start with get_adcp_capabilities. Read the feed with get_signals and discovery_mode "wholesale".'

type McpColdOptions = {
  tasks: readonly Task[]
  version: string
}

function toolsOf({ name, aliases = [], title, description, request, response, ...task }: Task): Tool[] {
  const { mutating, destructive = false } = task
  const about = {
    title,
    description,
    inputSchema: toolSchema(request),
    ...(response && { outputSchema: toolSchema(response) }),
    // A repeated idempotency_key has no second effect, so every call may be repeated unchanged.
    annotations: {
      ...{ readOnlyHint: !mutating, destructiveHint: destructive },
      ...{ idempotentHint: true, openWorldHint: false },
    },
  }
  return [name, ...aliases].map((tool) => ({ name: tool, ...about }))
}

export function createMcpCold({ tasks, version }: McpColdOptions) {
  const tools = tasks.flatMap(toolsOf)

  /** The answer to one request; undefined when its params are none of MCP's. */
  async function answer(message: Record<string, unknown>): Promise<JSONRPCMessage | undefined> {
    const request = JSONRPCMessageSchema.safeParse(message)
    if (!request.success) return undefined
    const server = new Server(
      { name: 'tributary', title: 'Tributary', version },
      { capabilities: { tools: {} }, instructions: INSTRUCTIONS, jsonSchemaValidator },
    )
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    try {
      await server.connect(theirs)
      return await new Promise<JSONRPCMessage>((resolve, reject) => {
        ours.onmessage = resolve
        ours.send(request.data).catch(reject)
      })
    } finally {
      await server.close()
    }
  }

  return { answer }
}

export type McpCold = ReturnType<typeof createMcpCold>
