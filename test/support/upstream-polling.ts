/**
 * An agent on the official SDK's server that closes the stream of every call as soon as it is primed, works for a while
 * and keeps the answer for whoever resumes the stream (MCP 2025-11-25, SEP-1699).
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as work } from 'node:timers/promises'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  type EventStore,
  StreamableHTTPServerTransport,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, type JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { type RunningAgent, readJson, startHttp } from './upstream-agent.js'
import { CAPABILITIES } from './upstream-feed.js'

function keepEvents(): EventStore {
  const kept: { streamId: string; eventId: string; message: JSONRPCMessage }[] = []
  return {
    async storeEvent(streamId, message) {
      const eventId = `${streamId}_${kept.length}`
      kept.push({ streamId, eventId, message })
      return eventId
    },
    async replayEventsAfter(lastEventId, { send }) {
      const at = kept.findIndex(({ eventId }) => eventId === lastEventId)
      const streamId = kept[at]?.streamId ?? ''
      for (const each of kept.slice(at + 1)) {
        if (each.streamId === streamId) await send(each.eventId, each.message)
      }
      return streamId
    },
  }
}

export type Pace = {
  /** How long each call takes, ms. */
  workMs: number
  /** The wait that clients are asked for, ms. */
  retryMs: number
}

export async function startPollingAgent({
  workMs,
  retryMs,
}: Pace): Promise<RunningAgent & { executed(task: string): number; resumed(): number }> {
  const open = new Map<string, StreamableHTTPServerTransport>()
  const executed: string[] = []
  let resumed = 0

  async function openSession(): Promise<StreamableHTTPServerTransport> {
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: keepEvents(),
      retryInterval: retryMs,
      onsessioninitialized: (id) => void open.set(id, transport),
    })
    const server = new Server({ name: 'polling-agent', version: '1' }, { capabilities: { tools: {} } })
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { closeSSEStream }) => {
      executed.push(params.name)
      closeSSEStream?.()
      await work(workMs)
      const answer = { status: 'completed', deployments: [] }
      const structuredContent = params.name === 'get_adcp_capabilities' ? CAPABILITIES : answer
      return { content: [{ type: 'text', text: 'done' }], structuredContent }
    })
    await server.connect(transport as never)
    return transport
  }

  const running = await startHttp(async (request, response) => {
    const session = open.get(String(request.headers['mcp-session-id']))
    if (request.method === 'GET') {
      if (request.headers['last-event-id']) resumed += 1
      if (session) await session.handleRequest(request, response)
      else response.writeHead(404).end()
      return
    }
    const body = await readJson(request)
    await (session ?? (await openSession())).handleRequest(request, response, body)
  })
  return {
    ...running,
    executed: (task) => executed.filter((each) => each === task).length,
    resumed: () => resumed,
  }
}
