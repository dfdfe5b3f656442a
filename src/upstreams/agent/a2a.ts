/**
 * An agent over A2A's JSON-RPC binding, 1.0 and 0.3 (docs/protocol.md#a2a): a skill in a data part out, the last data part of
 * the task's artifact back. Its card says where to post and in which version. The card is public and untrusted: it is followed
 * within the site of the configured url, and with a credential within the origin of that url alone.
 */
import { randomUUID } from 'node:crypto'
import { pause, systemClock } from '../../net/clock.js'
import { sameSite } from '../../net/redirects.js'
import {
  type Agent,
  type AgentOptions,
  type AgentOutcome,
  type Arguments,
  authHeaders,
  type Budget,
  boundsOf,
  type CallFailure,
  callFailed,
  isRead,
  remaining,
} from './agent.js'
import type { A2aVersion, Card } from './card.js'
import { readCardReply } from './readers.js'
import {
  type AgentRequest,
  answerOf,
  createRpc,
  networkFailure,
  type RpcOutcome,
  statusFailure,
  UNKNOWN_METHOD,
} from './rpc.js'

const MAX_CARD_BYTES = 1024 * 1024
const PATHS = ['.well-known/agent.json', '.well-known/agent-card.json']
const POLL_MS = 500 // an agent that works on a task is asked twice a second
const MAX_MISSES = 3 // polls in a row that fail
const VERSION_NOT_SUPPORTED = -32009

type Endpoint = { url: string; version: A2aVersion }

/** `endpoints`: where to post, best version first; never empty. */
type Found = { kind: 'card'; endpoints: readonly Endpoint[]; tools: Card['tools'] }

type Wording = {
  headers: Record<string, string>
  send: string
  get: string
  message(task: string, args: Arguments): Record<string, unknown>
}

// Both names for the arguments: agents read one or the other (docs/protocol.md#a2a).
const WORDINGS: Record<A2aVersion, Wording> = {
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

/** Beside the agent url first, at the root of its host last. */
function cardUrls(url: string): string[] {
  const { origin, pathname } = new URL(url)
  if (pathname.endsWith('.json')) return [url]
  const base = `${origin}${pathname.replace(/\/+$/, '')}`
  const bases = base === origin ? [origin] : [base, origin]
  return bases.flatMap((each) => PATHS.map((path) => `${each}/${path}`))
}

/** The url a card names, or ours where the card leaves our site, or https (an address behind its proxy, or a trap). */
function postUrl(named: string | undefined, agentUrl: string): string {
  if (named === undefined || !URL.canParse(named, agentUrl)) return agentUrl
  const [url, ours] = [new URL(named, agentUrl), new URL(agentUrl)]
  const isSecure = url.protocol === ours.protocol || url.protocol === 'https:'
  return isSecure && sameSite(url, ours) ? url.href : agentUrl
}

/** `none` only when every place answered that it has no card; a failure says that this is not known. */
export async function findCard(
  options: AgentOptions,
  budget: Budget,
): Promise<Found | { kind: 'none' } | CallFailure> {
  const { send, url: agentUrl } = options
  const startedAt = Date.now()
  let failure: CallFailure | undefined
  for (const url of cardUrls(agentUrl)) {
    const reply = await send({
      url,
      headers: { accept: 'application/json' },
      timeoutMs: remaining(budget, startedAt).timeoutMs,
      maxBytes: MAX_CARD_BYTES,
      redirects: 'same-site',
      ...(budget.signal && { signal: budget.signal }),
    })
    if (reply.kind === 'failed') {
      if (reply.reason === 'too_large' || reply.reason === 'bad_redirect') continue
      return networkFailure(reply)
    }
    const { secrets } = boundsOf(options)
    const card = reply.status === 200 ? await readCardReply(agentUrl, reply.body, secrets) : undefined
    if (card && 'kind' in card) return card
    if (card) {
      const endpoints = card.places.map(({ url, version }) => ({ url: postUrl(url, agentUrl), version }))
      return { kind: 'card', endpoints, tools: card.tools }
    }
    failure ??= statusFailure(reply, Date.now())
  }
  return failure
    ? callFailed(failure.reason, `agent card: ${failure.message}`, failure.retryAfterMs)
    : { kind: 'none' }
}

/** The agent does not speak the version that its card, or we, supposed. */
function isWrongVersion(outcome: RpcOutcome): boolean {
  return (
    outcome.kind === 'rpc_error' &&
    (outcome.code === VERSION_NOT_SUPPORTED || outcome.code === UNKNOWN_METHOD)
  )
}

function pendingTask(outcome: RpcOutcome): string | undefined {
  return outcome.kind === 'answer' ? outcome.pending : undefined
}

/** The question failed, which says nothing about the task: the agent still works on it. */
function isMiss(outcome: RpcOutcome): boolean {
  return outcome.kind === 'failed' && (outcome.reason === 'unreachable' || outcome.reason === 'server_error')
}

/** `endpoints`: as found by a probe; without them the card is looked for at the first call. */
export function createA2aAgent(options: AgentOptions & { endpoints?: readonly Endpoint[] }): Agent {
  const { send, url, auth } = options
  const rpc = createRpc(send)
  const credentials = authHeaders(auth)
  let known = options.endpoints

  async function discover(budget: Budget): Promise<Found | CallFailure> {
    const found = await findCard(options, budget)
    return found.kind === 'none' ? callFailed('not_an_agent', 'no agent card was found') : found
  }

  async function endpoints(budget: Budget): Promise<readonly Endpoint[] | CallFailure> {
    if (known) return known
    const found = await discover(budget)
    if (found.kind === 'failed') return found
    known = found.endpoints
    return known
  }

  /** Where requests go with our credential: to no other origin than that of the url that it is configured for. */
  function placeOf({ url: named }: Endpoint): string {
    return auth.type === 'none' || new URL(named).origin === new URL(url).origin ? named : url
  }

  /** In the words of the endpoint's version. */
  function post(
    endpoint: Endpoint,
    method: 'send' | 'get',
    request: Pick<AgentRequest, 'params' | 'isRead' | 'budget'>,
  ): Promise<RpcOutcome> {
    const wording = WORDINGS[endpoint.version]
    return rpc({
      ...{ url: placeOf(endpoint), method: wording[method], as: 'a2a', ...request },
      headers: { ...credentials, ...wording.headers },
      bounds: boundsOf(options),
    })
  }

  /** Asks for a task until it is finished. */
  async function finished(
    first: RpcOutcome,
    endpoint: Endpoint,
    budget: Budget,
    startedAt: number,
  ): Promise<RpcOutcome> {
    let outcome = first
    let misses = 0
    for (let id = pendingTask(outcome); id; id = pendingTask(outcome)) {
      if (Date.now() - startedAt + POLL_MS >= budget.timeoutMs) {
        return callFailed('timeout', 'the agent was still working when the time was up')
      }
      await pause(systemClock, POLL_MS, budget.signal) // an abort ends the question below
      const question = { params: { id }, isRead: true, budget: remaining(budget, startedAt) }
      const polled = await post(endpoint, 'get', question)
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
    const places = await endpoints(budget)
    if ('kind' in places) return places
    let outcome: RpcOutcome = callFailed('not_an_agent', 'the agent card names no endpoint')
    // A reading of the capabilities comes before any change, so the first endpoint is one that has answered.
    const tried = isRead(task) ? places : places.slice(0, 1)
    for (const endpoint of tried) {
      const params = WORDINGS[endpoint.version].message(task, args)
      const left = remaining(budget, startedAt)
      outcome = await post(endpoint, 'send', { params, isRead: isRead(task), budget: left })
      if (isWrongVersion(outcome)) continue
      known = [endpoint, ...places.filter((each) => each !== endpoint)]
      outcome = await finished(outcome, endpoint, budget, startedAt)
      break
    }
    return answerOf(outcome)
  }

  return {
    protocol: 'a2a',
    call,
    /** The card is read anew: where to post is all that is kept of it. */
    async tools(budget) {
      const found = await discover(budget)
      return found.kind === 'failed' ? found : { kind: 'tools', tools: found.tools }
    },
  }
}
