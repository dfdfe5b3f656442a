/**
 * A demo agent over A2A, on the official SDK: protocol 1.0 and 0.3 on one route, told apart by the A2A-Version header,
 * and a card that clients of both read (docs/protocol.md#a2a).
 */
import { randomUUID } from 'node:crypto'
import { type AgentCard, type Task, TaskState } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  JsonRpcTransportHandler,
  ServerCallContext,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../src/adcp/json.js'
import { type Agent, TASKS } from './agent.js'
import { type Handler, readText, sendJson } from './host.js'

const KEPT_TASKS = 100 // the SDK's own store never forgets
const LOST = 'lost' // marks a call whose answer must not arrive
const CARD_PATHS = ['/.well-known/agent-card.json', '/.well-known/agent.json']

function cardOf({ party }: Agent): AgentCard {
  const skills = Object.entries(TASKS).map(([id, description]) => ({
    id,
    name: id,
    description,
    tags: ['adcp'],
    examples: [],
    inputModes: ['application/json'],
    outputModes: ['application/json'],
    securityRequirements: [],
  }))
  const jsonRpc = { url: party.url, protocolBinding: 'JSONRPC', tenant: '' }
  const extension = {
    uri: 'https://adcontextprotocol.org/extensions/adcp/v3',
    description: 'Ad Context Protocol, version 3',
    required: false,
    params: undefined,
  }
  return {
    name: party.name,
    description: party.description,
    version: '1.0.0',
    provider: { organization: party.company, url: `https://${party.domain}` },
    supportedInterfaces: [
      { ...jsonRpc, protocolVersion: '1.0' },
      { ...jsonRpc, protocolVersion: '0.3' },
    ],
    capabilities: { streaming: false, pushNotifications: false, extensions: [extension] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['application/json'],
    defaultOutputModes: ['application/json'],
    skills,
    signatures: [],
  }
}

function createTaskStore(): TaskStore {
  const tasks = new LRUCache<string, Task>({ max: KEPT_TASKS })
  return {
    async save(task) {
      tasks.set(task.id, task)
    },
    load: async (id) => tasks.get(id),
    list: async () => ({
      tasks: [...tasks.values()],
      nextPageToken: '',
      pageSize: KEPT_TASKS,
      totalSize: tasks.size,
    }),
  }
}

/** The skill and its arguments in the first data part that names one; both releases and both spellings. */
function invocation(parts: readonly { content?: { $case: string; value: unknown } | undefined }[]) {
  for (const { content } of parts) {
    const data = content?.$case === 'data' ? content.value : undefined
    if (isRecord(data) && typeof data.skill === 'string')
      return { skill: data.skill, args: data.input ?? data.parameters }
  }
  return { skill: '', args: undefined }
}

function executorOf(agent: Agent): AgentExecutor {
  const part = { metadata: undefined, filename: '', mediaType: '' }
  return {
    async execute({ taskId, contextId, userMessage, context }, bus) {
      const { skill, args } = invocation(userMessage.parts)
      const { failed, message, payload } = agent.call(skill, args)
      if (agent.losesAnswer(skill)) context.state.set(LOST, true)
      const state = failed ? TaskState.TASK_STATE_FAILED : TaskState.TASK_STATE_COMPLETED
      const artifact = {
        artifactId: randomUUID(),
        name: skill,
        description: '',
        parts: [
          { ...part, content: { $case: 'text' as const, value: message } },
          { ...part, content: { $case: 'data' as const, value: payload } },
        ],
        metadata: undefined,
        extensions: [],
      }
      const status = { state, message: undefined, timestamp: undefined }
      bus.publish(
        AgentEvent.task({
          id: taskId,
          contextId,
          status,
          artifacts: [artifact],
          history: [],
          metadata: undefined,
        }),
      )
      bus.finished()
    },
    async cancelTask(_taskId, bus) {
      bus.finished()
    },
  }
}

/** The 1.0 card with the fields that clients of 0.3 look for. */
function hybridCard(card: AgentCard, url: string): Record<string, unknown> {
  return { ...card, url, preferredTransport: 'JSONRPC', protocolVersion: '0.3.0' }
}

/** Serves an agent at the path of its url, and its card beside it and at the root. */
export function a2aHandler(agent: Agent): Handler {
  const { pathname } = new URL(agent.party.url)
  const card = cardOf(agent)
  const published = hybridCard(card, agent.party.url)
  const requests = new DefaultRequestHandler(card, createTaskStore(), executorOf(agent))
  const current = new JsonRpcTransportHandler(requests)
  const legacy = new LegacyJsonRpcTransportHandler(requests)
  const cards = new Set(CARD_PATHS.flatMap((path) => [path, pathname + path]))

  return async ({ request, response, url }) => {
    if (cards.has(url.pathname)) return sendJson(response, 200, published)
    if (url.pathname !== pathname) return sendJson(response, 404, { error: 'not found' })
    if (request.method !== 'POST') return sendJson(response, 405, { error: 'POST only' }, { allow: 'POST' })
    const version = request.headers['a2a-version']
    const requestedVersion = typeof version === 'string' && version !== '' ? version : '0.3'
    const transport = requestedVersion.startsWith('0.') ? legacy : current
    const context = new ServerCallContext({ requestedVersion })
    const answer = await transport.handle(await readText(request), context)
    if (context.state.has(LOST)) return void request.socket.destroy()
    sendJson(response, 200, answer, { vary: 'A2A-Version' })
  }
}
