/**
 * An agent over A2A's JSON-RPC binding, 1.0 and 0.3 (docs/protocol.md#a2a): a skill in a data part out, the last data
 * part of the task's artifact back.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isRecord } from '../../adcp/json.js'
import { boundedText } from '../rows/json.js'
import {
  type Agent,
  type AgentOptions,
  type AgentOutcome,
  type Arguments,
  authHeaders,
  type Budget,
  type CallFailure,
  callFailed,
  remaining,
} from './agent.js'
import { type Found, objectIn, readAnswer, unwrapped } from './answer.js'
import { type A2aVersion, type CardEndpoints, findCard } from './card.js'
import { createRpc, errorOfRpc, type RpcOutcome } from './rpc.js'

const POLL_MS = 500 // an agent that works on a task is asked twice a second
const MAX_MISSES = 3 // polls in a row that fail
const VERSION_NOT_SUPPORTED = -32009
const METHOD_NOT_FOUND = -32601
const PENDING = /^(TASK_STATE_)?(SUBMITTED|WORKING)$/i
const FAILED = /^(TASK_STATE_)?(FAILED|REJECTED|CANCELED|CANCELLED|AUTH[-_]REQUIRED|INPUT[-_]REQUIRED)$/i

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

/** The task or the message in a result: 1.0 wraps it, 0.3 does not. */
function bodyOf(message: unknown): Record<string, unknown> | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  if (isRecord(result.task)) return result.task
  return isRecord(result.message) ? result.message : result
}

function statusOf(body: Record<string, unknown>): { state: string; message: unknown } {
  const status = isRecord(body.status) ? body.status : {}
  return { state: typeof status.state === 'string' ? status.state : '', message: status.message }
}

function partsIn(holder: unknown): Record<string, unknown>[] {
  return isRecord(holder) && Array.isArray(holder.parts) ? holder.parts.filter(isRecord) : []
}

/**
 * The last data part counts (docs/protocol.md#a2a): artifacts first, then the status message, then a bare message;
 * without any data part, a text that is an object.
 */
export function locateA2a(message: unknown): Found | undefined {
  const body = bodyOf(message)
  if (!body) return undefined
  const { state, message: spoken } = statusOf(body)
  const artifacts = Array.isArray(body.artifacts) ? body.artifacts : []
  const parts = [...partsIn(body), ...partsIn(spoken), ...artifacts.flatMap(partsIn)]
  const texts = parts.flatMap((part) => (typeof part.text === 'string' ? [part.text] : []))
  const data = parts.map((part) => part.data).findLast(isRecord) ?? texts.map(objectIn).findLast(isRecord)
  const text = boundedText(texts.find((each) => each !== ''))
  return { failed: FAILED.test(state), ...(data && { payload: unwrapped(data) }), ...(text && { text }) }
}

function pendingTask(outcome: RpcOutcome): string | undefined {
  const body = outcome.kind === 'result' ? bodyOf(outcome.skimmed.value) : undefined
  return body && typeof body.id === 'string' && PENDING.test(statusOf(body).state) ? body.id : undefined
}

/** The agent does not speak the version that its card, or we, supposed. */
function isWrongVersion(outcome: RpcOutcome): boolean {
  return (
    outcome.kind === 'rpc_error' &&
    (outcome.code === VERSION_NOT_SUPPORTED || outcome.code === METHOD_NOT_FOUND)
  )
}

/** Asking failed, which says nothing about the task: it is worked on all the same. */
function isMiss(outcome: RpcOutcome): boolean {
  return outcome.kind === 'failed' && (outcome.reason === 'unreachable' || outcome.reason === 'server_error')
}

/** `endpoints`: as found by a probe; without them the card is looked for at the first call. */
export function createA2aAgent({
  send,
  url,
  auth,
  endpoints,
}: AgentOptions & { endpoints?: CardEndpoints }): Agent {
  const rpc = createRpc(send)
  const credentials = authHeaders(auth)
  let known = endpoints

  async function discover(
    budget: Budget,
  ): Promise<{ kind: 'known'; endpoints: CardEndpoints } | CallFailure> {
    if (known) return { kind: 'known', endpoints: known }
    const card = await findCard(send, url, budget)
    if (card.kind === 'failed') return card
    if (card.kind === 'none') return callFailed('not_an_agent', 'no agent card was found')
    known = card.endpoints
    return { kind: 'known', endpoints: known }
  }

  async function finished(
    first: RpcOutcome,
    endpoint: CardEndpoints[number],
    budget: Budget,
    startedAt: number,
  ): Promise<RpcOutcome> {
    const dialect = DIALECTS[endpoint.version]
    let outcome = first
    let misses = 0
    for (let id = pendingTask(outcome); id; id = pendingTask(outcome)) {
      if (Date.now() - startedAt + POLL_MS >= budget.timeoutMs) {
        return callFailed('timeout', 'the agent was still working when the time was up')
      }
      await pause(POLL_MS, undefined, { signal: budget.signal }).catch(() => {}) // who aborts ends the question below
      const polled = await rpc({
        url: endpoint.url,
        headers: { ...credentials, ...dialect.headers },
        method: dialect.get,
        params: { id },
        budget: remaining(budget, startedAt, Date.now()),
      })
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
    for (const endpoint of discovered.endpoints) {
      const dialect = DIALECTS[endpoint.version]
      const first = await rpc({
        url: endpoint.url,
        headers: { ...credentials, ...dialect.headers },
        method: dialect.send,
        params: dialect.message(task, args),
        budget: remaining(budget, startedAt, Date.now()),
      })
      outcome = await finished(first, endpoint, budget, startedAt)
      if (!isWrongVersion(outcome)) {
        known = [endpoint, ...discovered.endpoints.filter((each) => each !== endpoint)]
        break
      }
    }
    if (outcome.kind === 'result') return readAnswer(outcome.skimmed, locateA2a)
    if (outcome.kind === 'failed') return outcome
    return { kind: 'error', error: errorOfRpc(outcome.code, outcome.message) }
  }

  return { protocol: 'a2a', call }
}
