/**
 * Everything of A2A that does not send a message: get, list, cancel and subscribe to tasks, push configurations,
 * unknown methods. The official handlers answer them, 1.0 and 0.3, and read the tasks that we keep (docs/protocol.md#a2a).
 */
import { randomBytes } from 'node:crypto'
import { Task as A2aTask, AgentCard, taskStateToJSON } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import {
  DefaultRequestHandler,
  JsonRpcTransportHandler,
  ServerCallContext,
  type TaskStore,
  type User,
} from '@a2a-js/sdk/server'
import { type RpcRest, rpcRest } from '../answer/json-rpc.js'
import { TASK_NOT_FOUND } from './a2a-errors.js'
import { type Place, placeFrom, tokenOf } from './a2a-listing.js'
import { type A2aTasks, type FoundTask, taskState } from './a2a-tasks.js'

const DEFAULT_PAGE = 50 // tasks (A2A 1.0, ListTasksRequest)

type ColdAnswer = { isStream: boolean; responses: readonly RpcRest[] }

/** Who asks, and the data of the tasks that are read for the answer, each by the id of its task. */
type Asker = User & { data: Map<string, string> }

/**
 * Stands in the official handlers for the data of a task. They would read it and write it anew, and the caller's context goes back
 * byte for byte (docs/protocol.md#envelope): a long integer would lose digits. No caller can guess the name.
 */
const STAND_IN = randomBytes(18).toString('base64url')
const STAND_INS = new RegExp(`\\{"${STAND_IN}":"([\\w-]+)"\\}`, 'g')

const askerOf = ({ user }: ServerCallContext) => user as Asker

function taskOf({ id, content, at }: FoundTask, { data }: Asker): A2aTask {
  const { contextId, text, metadata } = content
  data.set(id, content.data)
  const status = { state: taskState(content, '1.0'), timestamp: new Date(at).toISOString() }
  const parts = [{ data: { [STAND_IN]: id } }, { text }]
  const artifact = { artifactId: `${id}-result`, name: 'result', parts, ...(metadata && { metadata }) }
  return A2aTask.fromJSON({ id, contextId, status, artifacts: [artifact] })
}

function placeOf(token: string): Place | undefined {
  if (token === '') return undefined
  const place = placeFrom(token)
  if (!place) throw new RequestMalformedError('pageToken is not one that a listing gave.')
  return place
}

/** The kept tasks as the official handlers read them. */
function createTaskStore({ known, list }: Pick<A2aTasks, 'known' | 'list'>): TaskStore {
  return {
    async load(id, context) {
      const asker = askerOf(context)
      const found = await known(asker.userName, id)
      return found && taskOf(found, asker)
    },
    async list({ status, ...params }, context) {
      const { contextId, statusTimestampAfter: since, pageToken, pageSize = DEFAULT_PAGE } = params
      const asker = askerOf(context)
      const after = placeOf(pageToken)
      const wanted = {
        ...(contextId && { context: contextId }),
        ...(status && { state: taskStateToJSON(status) }),
        ...(since && { since: Date.parse(since) }),
      }
      const page = { ...(after && { after }), most: pageSize }
      const { tasks, total, next } = await list(asker.userName, wanted, page)
      return {
        tasks: tasks.map((found) => {
          const task = taskOf(found, asker)
          return params.includeArtifacts ? task : { ...task, artifacts: [] }
        }),
        nextPageToken: next ? tokenOf(next) : '',
        ...{ pageSize, totalSize: total },
      }
    },
    async save() {
      // Every task is kept in its terminal state; the official handlers have nothing to add to it.
    },
  }
}

/** The official handlers repeat the id that was asked for; a message holds no text of a stranger (docs/protocol.md#envelope). */
function withoutId(error: { code: number }) {
  return error.code === TASK_NOT_FOUND ? { ...error, message: 'Task not found' } : error
}

function responseOf(response: object, { data }: Asker): RpcRest {
  const { result, error } = response as { result?: unknown; error?: { code: number } }
  const made = rpcRest({ result, error: error && withoutId(error) })
  return { ...made, rest: made.rest.replace(STAND_INS, (_, id: string) => data.get(id) ?? 'null') }
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
    const user: Asker = { isAuthenticated: owner !== undefined, userName: owner ?? '', data: new Map() }
    const context = new ServerCallContext({ user, requestedVersion: dialect })
    const one = (response: object) => ({ isStream: false, responses: [responseOf(response, user)] })
    // They take no id but a text or a safe integer. JSON-RPC takes any number, and the caller's own text goes back.
    const request = { ...message, id: 0 }
    const response = await (dialect === '1.0' ? current : legacy).handle(request, context)
    if (!isStream(response)) return one(response)
    try {
      // Our tasks have ended, so a subscription ends at once.
      const responses: RpcRest[] = []
      for await (const each of response) responses.push(responseOf(each, user))
      return { isStream: true, responses }
    } catch (error) {
      const fault =
        dialect === '1.0'
          ? JsonRpcTransportHandler.mapToJSONRPCError(error)
          : LegacyJsonRpcTransportHandler.mapToLegacyJSONRPCError(error)
      return one({ error: fault })
    }
  }

  return { answer }
}

export type A2aCold = ReturnType<typeof createA2aCold>
