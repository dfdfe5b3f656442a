/**
 * Everything of A2A that does not send a message: get, list, cancel and subscribe to tasks, push configurations,
 * unknown methods. The official handlers answer them, 1.0 and 0.3, over our bounded store (docs/protocol.md#a2a).
 */
import { AgentCard } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import { DefaultRequestHandler, JsonRpcTransportHandler, ServerCallContext } from '@a2a-js/sdk/server'
import { createTaskStore } from './a2a-store.js'
import type { A2aTasks } from './a2a-tasks.js'
import type { AgentCardDocument } from './agent-card.js'

type ColdAnswer = { kind: 'one'; response: object } | { kind: 'stream'; responses: object[] }

const isStream = (answer: object): answer is AsyncIterable<object> => Symbol.asyncIterator in answer

export function createA2aCold({ card, tasks }: { card: AgentCardDocument; tasks: A2aTasks }) {
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
    const response = await (dialect === '1.0' ? current : legacy).handle(message, context)
    if (!isStream(response)) return { kind: 'one', response }
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
      return { kind: 'one', response: { jsonrpc: '2.0', error: fault } }
    }
  }

  return { answer }
}

export type A2aCold = ReturnType<typeof createA2aCold>
