/**
 * An agent over MCP's Streamable HTTP, protocol versions 2024-11-05 to 2025-11-25 and the stateless 2026-07-28
 * (docs/protocol.md#mcp, docs/decisions.md#serving-from-bytes). Our own thin client: the SDK's costs three times the
 * CPU, refuses bare results, and never re-opens a lost session.
 */
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
import { createRpc, errorOfRpc, RPC_HEADERS, type RpcOutcome } from './rpc.js'
import { within } from './within.js'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
const STATELESS_VERSION = '2026-07-28'
const META = 'io.modelcontextprotocol'
const CLIENT = { name: 'tributary', version: '1' }
const ANNOUNCING_MS = 2_000
const OPENING_MS = 15_000 // a handshake is small: what is slower than this will not serve pages

/** How the agent wants to be spoken to, once a handshake has told. */
type Session = {
  headers: Record<string, string>
  /** Present when each request describes its client, as the stateless revision wants. */
  meta?: Record<string, unknown>
  /** `false` when losing it is impossible: there is no session id. */
  losable: boolean
}

type Opened = { kind: 'open'; session: Session } | { kind: 'refused'; message: string } | CallFailure

export type McpAgent = Agent & {
  /** Only shakes hands: `refused` when what answers does not speak MCP. */
  open(budget: Budget): Promise<{ kind: 'open' } | { kind: 'refused'; message: string } | CallFailure>
  /** The list of its tools as it came; undefined when it gives none now. */
  tools(budget: Budget): Promise<unknown>
}

function texts(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.filter(isRecord).flatMap((part) => (typeof part.text === 'string' ? [part.text] : []))
}

/**
 * docs/protocol.md#mcp: isError, structuredContent, then the first text that is an object; or
 * bare.
 */
export function locateMcp(message: unknown): Found | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  const failed = result.isError === true
  const written = texts(result.content)
  const text = boundedText(written[0])
  if (isRecord(result.structuredContent)) {
    return { payload: unwrapped(result.structuredContent), failed, ...(text && { text }) }
  }
  for (const each of written) {
    const payload = objectIn(each)
    if (payload) return { payload: unwrapped(payload), failed }
  }
  if (written.length > 0) return { failed, ...(text && { text }) }
  return result.content === undefined ? { payload: result, failed } : undefined
}

/** The handshake was understood as a request and turned down, so a different revision may be spoken. */
function isRefusal(outcome: RpcOutcome): boolean {
  if (outcome.kind === 'rpc_error') return true
  if (outcome.kind === 'result') return false
  const { status = 300 } = outcome // a redirect that may not be followed
  return outcome.reason === 'protocol_error' && status >= 200 && status < 500
}

function lostSession(outcome: RpcOutcome, session: Session): boolean {
  if (!session.losable || outcome.kind === 'result') return false
  return outcome.status === 404 || outcome.status === 400
}

export function createMcpAgent({ send, url, auth }: AgentOptions): McpAgent {
  const rpc = createRpc(send)
  const credentials = authHeaders(auth)
  let session: Session | undefined
  let opening: Promise<Opened> | undefined

  async function initialize(budget: Budget): Promise<Opened> {
    const outcome = await rpc({
      url,
      headers: credentials,
      method: 'initialize',
      params: { protocolVersion: VERSIONS[0], capabilities: {}, clientInfo: CLIENT },
      budget,
      resumable: true,
    })
    if (outcome.kind !== 'result') {
      return isRefusal(outcome) ? { kind: 'refused', message: outcome.message } : (outcome as CallFailure)
    }
    const result = isRecord(outcome.skimmed.value) ? outcome.skimmed.value.result : undefined
    if (!isRecord(result) || typeof result.protocolVersion !== 'string') {
      return { kind: 'refused', message: 'initialize was answered without a protocol version' }
    }
    const id = outcome.headers['mcp-session-id']
    const headers = {
      ...credentials,
      'mcp-protocol-version': result.protocolVersion.slice(0, 32),
      ...(id && { 'mcp-session-id': id }),
    }
    await announce(headers, budget)
    return { kind: 'open', session: { headers, losable: Boolean(id) } }
  }

  /** Some agents want it, none may answer it, and an agent without sessions may not know it: nothing rests on it. */
  async function announce(headers: Record<string, string>, budget: Budget): Promise<void> {
    await send({
      url,
      method: 'POST',
      headers: { ...RPC_HEADERS, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }),
      timeoutMs: Math.min(budget.timeoutMs, ANNOUNCING_MS),
      maxBytes: 64 * 1024,
      redirects: 'same-site',
      enough: () => () => true,
      ...(budget.signal && { signal: budget.signal }),
    })
  }

  async function discover(budget: Budget): Promise<Opened> {
    const meta = {
      [`${META}/protocolVersion`]: STATELESS_VERSION,
      [`${META}/clientInfo`]: CLIENT,
      [`${META}/clientCapabilities`]: {},
    }
    const headers = { ...credentials, 'mcp-protocol-version': STATELESS_VERSION }
    const outcome = await rpc({
      url,
      headers: { ...headers, 'mcp-method': 'server/discover' },
      method: 'server/discover',
      params: { _meta: meta },
      budget,
    })
    if (outcome.kind === 'result') return { kind: 'open', session: { headers, meta, losable: false } }
    return isRefusal(outcome) ? { kind: 'refused', message: outcome.message } : (outcome as CallFailure)
  }

  /** Agents without any handshake exist: they answer tools/list to anybody. */
  async function bare(budget: Budget): Promise<Opened> {
    const outcome = await rpc({ url, headers: credentials, method: 'tools/list', params: {}, budget })
    if (outcome.kind === 'result') return { kind: 'open', session: { headers: credentials, losable: false } }
    return isRefusal(outcome) ? { kind: 'refused', message: outcome.message } : (outcome as CallFailure)
  }

  async function shakeHands(budget: Budget): Promise<Opened> {
    const startedAt = Date.now()
    let opened: Opened = { kind: 'refused', message: 'nothing was tried' }
    for (const step of [initialize, discover, bare]) {
      opened = await step(remaining(budget, startedAt, Date.now()))
      if (opened.kind !== 'refused') break
    }
    if (opened.kind === 'open') session = opened.session
    return opened
  }

  /** Callers that arrive during a handshake share it, each as long as its own budget allows. */
  async function ready(budget: Budget): Promise<Opened> {
    const startedAt = Date.now()
    for (;;) {
      if (session) return { kind: 'open', session }
      const left = remaining(budget, startedAt, Date.now())
      const isShared = opening !== undefined
      opening ??= shakeHands({ timeoutMs: Math.min(left.timeoutMs, OPENING_MS) }).finally(() => {
        opening = undefined
      })
      const opened = await within(opening, left)
      const isOthersTimeout = isShared && opened.kind === 'failed' && opened.reason === 'timeout'
      if (!isOthersTimeout || Date.now() - startedAt >= budget.timeoutMs) return opened
    }
  }

  function request(task: string, args: Arguments, { headers, meta }: Session, budget: Budget) {
    const method = 'tools/call'
    return rpc({
      url,
      headers: meta ? { ...headers, 'mcp-method': method, 'mcp-name': task } : headers,
      method,
      params: { name: task, arguments: args, ...(meta && { _meta: meta }) },
      budget,
      resumable: !meta, // the stateless revision took resuming away: a GET would mean something else there
    })
  }

  function interpret(outcome: RpcOutcome): AgentOutcome {
    if (outcome.kind === 'result') return readAnswer(outcome.skimmed, locateMcp)
    if (outcome.kind === 'failed') return outcome
    return { kind: 'error', error: errorOfRpc(outcome.code, outcome.message) }
  }

  /** `lost`: the agent does not know the session any more, so the request was not executed. */
  async function callOnce(
    task: string,
    args: Arguments,
    budget: Budget,
  ): Promise<AgentOutcome | { kind: 'lost'; outcome: AgentOutcome }> {
    const startedAt = Date.now()
    const opened = await ready(budget)
    if (opened.kind === 'refused') return callFailed('not_an_agent', opened.message)
    if (opened.kind === 'failed') return opened
    const outcome = await request(task, args, opened.session, remaining(budget, startedAt, Date.now()))
    if (!lostSession(outcome, opened.session)) return interpret(outcome)
    if (session === opened.session) session = undefined
    return { kind: 'lost', outcome: interpret(outcome) }
  }

  async function call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome> {
    const startedAt = Date.now()
    const first = await callOnce(task, args, budget)
    if (first.kind !== 'lost') return first
    const second = await callOnce(task, args, remaining(budget, startedAt, Date.now()))
    return second.kind === 'lost' ? second.outcome : second
  }

  /** Pages of the list beyond the first are nobody's practice. */
  async function tools(budget: Budget): Promise<unknown> {
    const opened = await ready(budget)
    if (opened.kind !== 'open') return undefined
    const { headers, meta } = opened.session
    const method = 'tools/list'
    const outcome = await rpc({
      url,
      headers: meta ? { ...headers, 'mcp-method': method } : headers,
      method,
      params: meta ? { _meta: meta } : {},
      budget,
      resumable: !meta,
    })
    const { result } =
      outcome.kind === 'result' && isRecord(outcome.skimmed.value) ? outcome.skimmed.value : {}
    return isRecord(result) ? result.tools : undefined
  }

  return {
    protocol: 'mcp',
    call,
    tools,
    async open(budget) {
      const opened = await ready(budget)
      return opened.kind === 'open' ? { kind: 'open' } : opened
    },
  }
}
