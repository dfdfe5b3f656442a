/**
 * An agent over A2A's JSON-RPC binding, 1.0 and 0.3 (docs/protocol.md#a2a): a skill in a data part out, the last data
 * part of the task's artifact back.
 */

import { randomUUID } from 'node:crypto'
import { pause, systemClock } from '../../../net/clock.js'
import {
  type Agent,
  type AgentOptions,
  type AgentOutcome,
  type Arguments,
  authHeaders,
  type Budget,
  type CallFailure,
  callFailed,
  isRead,
  remaining,
} from '../agent.js'
import { type A2aVersion, type Card, type CardEndpoints, findCard } from './card.js'
import { createRpc, errorOfRpc, type RpcOutcome } from './rpc.js'

const POLL_MS = 500 // an agent that works on a task is asked twice a second
const MAX_MISSES = 3 // polls in a row that fail
const VERSION_NOT_SUPPORTED = -32009
const METHOD_NOT_FOUND = -32601

type Dialect = {
  headers: Record<string, string>
  send: string
  get: string
  message(task: string, args: Arguments): Record<string, unknown>
}

// Both names for the arguments: agents read one or the other (docs/protocol.md#a2a).
const DIALECTS: Record<A2aVersion, Dialect> = {
  '1.0': {
    headers: { 'a2a-version': '1.0' },
    send: 'SendMessage',
    get: 'GetTask',
    message: (skill, input) => ({
      message: {
        messageId: randomUUID(),
        role: 'ROLE_USER',
        parts: [{ data: { skill, input, parameters: input } }],
      },
    }),
  },
  '0.3': {
    headers: {},
    send: 'message/send',
    get: 'tasks/get',
    message: (skill, input) => ({
      message: {
        kind: 'message',
        messageId: randomUUID(),
        role: 'user',
        parts: [{ kind: 'data', data: { skill, input, parameters: input } }],
      },
      configuration: { blocking: true },
    }),
  },
}

/** The agent does not speak the version that its card, or we, supposed. */
function isWrongVersion(outcome: RpcOutcome): boolean {
  return (
    outcome.kind === 'rpc_error' &&
    (outcome.code === VERSION_NOT_SUPPORTED || outcome.code === METHOD_NOT_FOUND)
  )
}

function pendingTask(outcome: RpcOutcome): string | undefined {
  return outcome.kind === 'answer' ? outcome.pending : undefined
}

/** The question failed, which says nothing about the task: the agent still works on it. */
function isMiss(outcome: RpcOutcome): boolean {
  return outcome.kind === 'failed' && (outcome.reason === 'unreachable' || outcome.reason === 'server_error')
}

/** `card`: as found by a probe; without it the card is looked for at the first call. */
export function createA2aAgent({ send, url, auth, bounds, card }: AgentOptions & { card?: Card }): Agent {
  const rpc = createRpc(send)
  const credentials = authHeaders(auth)
  let known = card

  async function discover(budget: Budget): Promise<Card | CallFailure> {
    if (known) return known
    const found = await findCard(send, url, budget)
    if (found.kind === 'none') return callFailed('not_an_agent', 'no agent card was found')
    if (found.kind === 'card') known = found
    return found
  }

  async function finished(
    first: RpcOutcome,
    endpoint: CardEndpoints[number],
    budget: Budget,
    startedAt: number,
  ): Promise<RpcOutcome> {
    const dialect = DIALECTS[endpoint.version]
    const asked = { url: endpoint.url, headers: { ...credentials, ...dialect.headers }, method: dialect.get }
    let outcome = first
    let misses = 0
    for (let id = pendingTask(outcome); id; id = pendingTask(outcome)) {
      if (Date.now() - startedAt + POLL_MS >= budget.timeoutMs) {
        return callFailed('timeout', 'the agent was still working when the time was up')
      }
      await pause(systemClock, POLL_MS, budget.signal) // an abort ends the question below
      const polled = await rpc({
        ...asked,
        params: { id },
        as: 'a2a',
        ...(bounds && { bounds: bounds() }),
        budget: remaining(budget, startedAt, Date.now()),
      })
      // The agent accepted the message: one that does not report on the task has not refused it.
      if (isWrongVersion(polled))
        return callFailed('protocol_error', 'the agent tells nothing about its task')
      misses = isMiss(polled) ? misses + 1 : 0
      if (misses === 0 || misses === MAX_MISSES) outcome = polled
    }
    return outcome
  }

  async function call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome> {
    const startedAt = Date.now()
    const discovered = await discover(budget)
    if (discovered.kind === 'failed') return discovered
    let outcome: RpcOutcome = callFailed('not_an_agent', 'the agent card names no endpoint')
    // A reading of the capabilities comes before any change, so the first endpoint is one that has answered.
    const tried = isRead(task) ? discovered.endpoints : discovered.endpoints.slice(0, 1)
    for (const endpoint of tried) {
      const dialect = DIALECTS[endpoint.version]
      const first = await rpc({
        url: endpoint.url,
        headers: { ...credentials, ...dialect.headers },
        method: dialect.send,
        params: dialect.message(task, args),
        as: 'a2a',
        ...(bounds && { bounds: bounds() }),
        budget: remaining(budget, startedAt, Date.now()),
      })
      outcome = first
      if (isWrongVersion(first)) continue
      const others = discovered.endpoints.filter((each) => each !== endpoint)
      known = { ...discovered, endpoints: [endpoint, ...others] }
      outcome = await finished(first, endpoint, budget, startedAt)
      break
    }
    if (outcome.kind === 'answer') return outcome.outcome
    if (outcome.kind === 'rpc_error') {
      return { kind: 'error', error: errorOfRpc(outcome.code, outcome.message) }
    }
    return outcome.kind === 'failed'
      ? outcome
      : callFailed('protocol_error', 'a value where an answer was asked')
  }

  return {
    protocol: 'a2a',
    call,
    async tools(budget) {
      const discovered = await discover(budget)
      return discovered.kind === 'card' ? discovered.skills : undefined
    },
  }
}
