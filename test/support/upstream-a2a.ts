/** An A2A agent for tests, on the official server SDK: 1.0, 0.3, or both. */
import { randomUUID } from 'node:crypto'
import { type AgentCard, TaskState } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import { type RunningAgent, readJson, startHttp, type TaskHandler } from './upstream-agent.js'

export type A2aVersions = readonly ('1.0' | '0.3')[]

export type Skill = { id: string; description: string }

function cardOf(url: string, versions: A2aVersions, skills: readonly Skill[]): AgentCard {
  return {
    name: 'test agent',
    description: 'answers',
    version: '1.0.0',
    provider: undefined,
    supportedInterfaces: versions.map((protocolVersion) => ({
      url,
      protocolBinding: 'JSONRPC',
      tenant: '',
      protocolVersion,
    })),
    capabilities: { streaming: false, pushNotifications: false, extensions: [] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['application/json'],
    defaultOutputModes: ['application/json'],
    skills: skills.map((skill) => ({
      ...{
        name: skill.id,
        tags: [],
        examples: [],
        inputModes: [],
        outputModes: [],
        securityRequirements: [],
      },
      ...skill,
    })),
    signatures: [],
  }
}

type Invocation = { skill: string; input?: Record<string, unknown>; parameters?: Record<string, unknown> }

function executor(handler: TaskHandler): AgentExecutor {
  const blank = { metadata: undefined, filename: '', mediaType: '' }
  return {
    async execute({ taskId, contextId, userMessage }, bus) {
      const data = userMessage.parts
        .map(({ content }) => (content?.$case === 'data' ? (content.value as Invocation) : undefined))
        .find((each) => each?.skill !== undefined)
      const payload = handler(data?.skill ?? '', data?.input ?? data?.parameters ?? {})
      const failed = payload === undefined || payload.adcp_error !== undefined
      const parts = [
        { ...blank, content: { $case: 'text' as const, value: 'done' } },
        ...(payload ? [{ ...blank, content: { $case: 'data' as const, value: payload } }] : []),
      ]
      bus.publish(
        AgentEvent.task({
          id: taskId,
          contextId,
          status: {
            state: failed ? TaskState.TASK_STATE_FAILED : TaskState.TASK_STATE_COMPLETED,
            message: undefined,
            timestamp: undefined,
          },
          artifacts: [
            {
              artifactId: randomUUID(),
              name: '',
              description: '',
              parts,
              metadata: undefined,
              extensions: [],
            },
          ],
          history: [],
          metadata: undefined,
        }),
      )
      bus.finished()
    },
    async cancelTask(_id, bus) {
      bus.finished()
    },
  }
}

export async function startA2aAgent(
  handler: TaskHandler,
  versions: A2aVersions,
  skills: readonly Skill[] = [],
): Promise<RunningAgent> {
  let answer: (version: string, body: unknown) => Promise<unknown> = async () => ({})
  let card: unknown
  const running = await startHttp(async (request, response) => {
    const send = (status: number, value: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (request.url === '/a2a/.well-known/agent-card.json') return void send(200, card)
    if (request.url !== '/a2a' || request.method !== 'POST') return void send(404, { error: 'not found' })
    const version = request.headers['a2a-version']
    send(200, await answer(typeof version === 'string' ? version : '0.3', await readJson(request)))
  }, '/a2a')
  const plain = cardOf(running.url, versions, skills)
  const legacyOnly = !versions.includes('1.0')
  card = legacyOnly
    ? { ...plain, supportedInterfaces: undefined, url: running.url, protocolVersion: '0.3.0' }
    : { ...plain, url: running.url, protocolVersion: '0.3.0' }
  const requests = new DefaultRequestHandler(plain, new InMemoryTaskStore(), executor(handler))
  const current = new JsonRpcTransportHandler(requests)
  const legacy = new LegacyJsonRpcTransportHandler(requests)
  answer = async (version, body) => {
    const transport = version.startsWith('0.') ? legacy : current
    return transport.handle(
      body as Record<string, unknown>,
      new ServerCallContext({ requestedVersion: version }),
    )
  }
  return running
}
