/**
 * Everything of A2A that does not send a message: get, list, cancel and subscribe to tasks, push configurations,
 * unknown methods. The official handlers answer them, 1.0 and 0.3, and read the tasks that we keep (docs/protocol.md#a2a).
 */
import { Task as A2aTask, AgentCard } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { TASK_NOT_FOUND } from './a2a-errors.js'
import { type A2aTasks, type FoundTask, taskState } from './a2a-tasks.js'

type ColdAnswer = { kind: 'one'; response: object } | { kind: 'stream'; responses: object[] }

function taskOf({ id, content, at }: FoundTask): A2aTask {
  const { contextId, text, metadata, data } = content
  const status = { state: taskState(content, '1.0'), timestamp: new Date(at).toISOString() }
  const parts = [{ data: JSON.parse(data) as unknown }, { text }]
  const artifact = { artifactId: `${id}-result`, name: 'result', parts, ...(metadata && { metadata }) }
  return A2aTask.fromJSON({ id, contextId, status, artifacts: [artifact] })
}

const ownerOf = (context: ServerCallContext) => context.user?.userName ?? ''

/** The kept tasks as the official handlers read them. */
export function createTaskStore({ known, newest }: Pick<A2aTasks, 'known' | 'newest'>): TaskStore {
  return {
    async load(id, context) {
      const found = await known(ownerOf(context), id)
      return found && taskOf(found)
    },
    async list(params, context) {
      // Filters and page tokens are the library's; it sees the owner's tasks for one listing and is dropped.
      const listing = new InMemoryTaskStore()
      for (const found of await newest(ownerOf(context))) await listing.save(taskOf(found), context)
      return listing.list(params, context)
    },
    async save() {
      // Every task is kept in its terminal state; the official handlers have nothing to add to it.
    },
  }
}

/** The official handlers repeat the id that was asked for; a message holds no text of a stranger (docs/protocol.md#envelope). */
function withoutId(response: object): object {
  const { error } = response as { error?: { code?: unknown } }
  if (error?.code !== TASK_NOT_FOUND) return response
  return { ...response, error: { ...error, message: 'Task not found' } }
}

const isStream = (answer: object): answer is AsyncIterable<object> => Symbol.asyncIterator in answer

export function createA2aCold({ card, tasks }: { card: object; tasks: A2aTasks }) {
  const executor = {
    async execute() {
      throw new Error('Messages are answered before they come here')
    },
    // Every stored task has ended, so there is nothing to cancel; the handler says so itself.
    async cancelTask() {},
  }
  const handler = new DefaultRequestHandler(AgentCard.fromJSON(card), createTaskStore(tasks), executor)
  const current = new JsonRpcTransportHandler(handler)
  const legacy = new LegacyJsonRpcTransportHandler(handler)

  async function answer(
    message: Record<string, unknown>,
    dialect: '1.0' | '0.3',
    owner: string | undefined,
  ): Promise<ColdAnswer> {
    const user = { isAuthenticated: owner !== undefined, userName: owner ?? '' }
    const context = new ServerCallContext({ user, requestedVersion: dialect })
    // They take no id but a text or a safe integer. JSON-RPC takes any number, and the caller's own text goes back.
    const request = { ...message, id: 0 }
    const response = await (dialect === '1.0' ? current : legacy).handle(request, context)
    if (!isStream(response)) return { kind: 'one', response: withoutId(response) }
    try {
      // Our tasks have ended, so a subscription ends at once.
      const responses: object[] = []
      for await (const one of response) responses.push(one)
      return { kind: 'stream', responses }
    } catch (error) {
      const fault =
        dialect === '1.0'
          ? JsonRpcTransportHandler.mapToJSONRPCError(error)
          : LegacyJsonRpcTransportHandler.mapToLegacyJSONRPCError(error)
      return { kind: 'one', response: withoutId({ jsonrpc: '2.0', error: fault }) }
    }
  }

  return { answer }
}

export type A2aCold = ReturnType<typeof createA2aCold>
