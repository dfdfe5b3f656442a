/**
 * An agent over MCP's Streamable HTTP, protocol versions 2024-11-05 to 2025-11-25 and the stateless 2026-07-28
 * (docs/protocol.md#mcp, docs/decisions.md#serving-from-bytes). Our own thin client: the SDK's costs three times the
 * CPU, refuses bare results, and never re-opens a lost session.
 */
import { type End, within } from '../../net/clock.js'
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
  type ToolsOutcome,
} from './agent.js'
import { answerOf, createRpc, RPC_HEADERS, type RpcOutcome } from './rpc.js'

const VERSION = '2025-11-25' // the agent answers with the one that it speaks
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

type McpAgent = Agent & {
  /** Only shakes hands: `refused` when what answers does not speak MCP. */
  open(budget: Budget): Promise<Opened>
}

/** The handshake was understood as a request and turned down, so a different revision may be spoken. */
function isRefusal(outcome: RpcOutcome): boolean {
  if (outcome.kind === 'rpc_error') return true
  if (outcome.kind !== 'failed') return false
  const { status = 300 } = outcome // a redirect that may not be followed
  return outcome.reason === 'protocol_error' && status >= 200 && status < 500
}

/**
 * "The server MUST respond to requests containing that session ID with HTTP 404" once it has ended the session (MCP,
 * "Session Management"): `lost`. Every other status may come after the request was carried out. Some servers answer with 400,
 * `doubtful`: the request is not repeated, but the next call opens a session.
 */
function fateOf({ losable }: Session, outcome: RpcOutcome): 'kept' | 'lost' | 'doubtful' {
  const status = outcome.kind === 'failed' || outcome.kind === 'rpc_error' ? outcome.status : undefined
  if (!losable || (status !== 404 && status !== 400)) return 'kept'
  return status === 404 ? 'lost' : 'doubtful'
}

/** Why a step of the handshake opened nothing. */
function unopened(outcome: Exclude<RpcOutcome, { kind: 'handshake' }>): Opened {
  if (outcome.kind === 'answer' || outcome.kind === 'tools') throw new Error('a handshake was asked for')
  if (isRefusal(outcome)) return { kind: 'refused', message: outcome.message }
  return outcome as CallFailure
}

/** A caller that waits for a handshake which another call has started has its own budget. */
function notOpen(end: End): CallFailure {
  return end === 'timeout'
    ? callFailed('timeout', 'the agent was still opening')
    : callFailed('aborted', 'the caller gave up')
}

/** Opens its session with the first call, and again when the agent has lost it. */
export function createMcpAgent(options: AgentOptions): McpAgent {
  const { send, url, auth } = options
  const rpc = createRpc(send)
  const credentials = authHeaders(auth)
  const plain: Session = { headers: credentials, losable: false }
  let session: Session | undefined
  let opening: Promise<Opened> | undefined

  /** A request under a session. `tool`: the one that it calls; without one it changes nothing. */
  function posted(method: string, params: object, { headers, meta }: Session, tool?: string) {
    return {
      url,
      headers: meta ? { ...headers, 'mcp-method': method, ...(tool && { 'mcp-name': tool }) } : headers,
      method,
      isRead: tool === undefined || isRead(tool),
      params: { ...params, ...(meta && { _meta: meta }) },
      resumable: !meta, // the stateless revision took resuming away: a GET would mean something else there
    }
  }

  async function initialize(budget: Budget): Promise<Opened> {
    const offer = { protocolVersion: VERSION, capabilities: {}, clientInfo: CLIENT }
    const outcome = await rpc({ ...posted('initialize', offer, plain), as: 'handshake', budget })
    if (outcome.kind !== 'handshake') return unopened(outcome)
    const { version } = outcome
    if (version === undefined) {
      return { kind: 'refused', message: 'initialize was answered without a protocol version' }
    }
    const id = outcome.headers['mcp-session-id']
    const headers = {
      ...credentials,
      'mcp-protocol-version': version,
      ...(id && { 'mcp-session-id': id }),
    }
    await announce(headers, budget)
    return { kind: 'open', session: { headers, losable: Boolean(id) } }
  }

  /** Some agents want it, no agent may answer it, and one without sessions may not know it: nothing depends on it. */
  async function announce(headers: Record<string, string>, budget: Budget): Promise<void> {
    await send({
      url,
      method: 'POST',
      headers: { ...RPC_HEADERS, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }),
      timeoutMs: Math.min(budget.timeoutMs, ANNOUNCING_MS),
      maxBytes: 64 * 1024,
      redirects: 'same-site',
      isRead: true,
      enough: () => () => true,
      ...(budget.signal && { signal: budget.signal }),
    })
  }

  /** Supposes a session without a handshake: what answers `method` under it has one. */
  async function supposed(session: Session, method: string, budget: Budget): Promise<Opened> {
    const outcome = await rpc({ ...posted(method, {}, session), as: 'handshake', budget })
    return outcome.kind === 'handshake' ? { kind: 'open', session } : unopened(outcome)
  }

  function discover(budget: Budget): Promise<Opened> {
    const headers = { ...credentials, 'mcp-protocol-version': STATELESS_VERSION }
    const meta = {
      [`${META}/protocolVersion`]: STATELESS_VERSION,
      [`${META}/clientInfo`]: CLIENT,
      [`${META}/clientCapabilities`]: {},
    }
    return supposed({ headers, meta, losable: false }, 'server/discover', budget)
  }

  /** Agents without any handshake exist: they answer tools/list to anybody. */
  function bare(budget: Budget): Promise<Opened> {
    return supposed(plain, 'tools/list', budget)
  }

  async function shakeHands(budget: Budget): Promise<Opened> {
    const startedAt = Date.now()
    let opened: Opened = { kind: 'refused', message: 'nothing was tried' }
    for (const step of [initialize, discover, bare]) {
      opened = await step(remaining(budget, startedAt))
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
      const left = remaining(budget, startedAt)
      const isShared = opening !== undefined
      opening ??= shakeHands({ timeoutMs: Math.min(left.timeoutMs, OPENING_MS) }).finally(() => {
        opening = undefined
      })
      const opened = await within(opening, left, notOpen)
      const isOthersTimeout = isShared && opened.kind === 'failed' && opened.reason === 'timeout'
      if (!isOthersTimeout || Date.now() - startedAt >= budget.timeoutMs) return opened
    }
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
    const outcome = await rpc({
      ...posted('tools/call', { name: task, arguments: args }, opened.session, task),
      as: 'mcp',
      bounds: boundsOf(options),
      budget: remaining(budget, startedAt),
    })
    const fate = fateOf(opened.session, outcome)
    if (fate !== 'kept' && session === opened.session) session = undefined
    return fate === 'lost' ? { kind: 'lost', outcome: answerOf(outcome) } : answerOf(outcome)
  }

  async function call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome> {
    const startedAt = Date.now()
    const first = await callOnce(task, args, budget)
    if (first.kind !== 'lost') return first
    // A change is repeated only by the code that stored it, under its key.
    if (!isRead(task)) return callFailed('unreachable', 'the session was lost', 0)
    const second = await callOnce(task, args, remaining(budget, startedAt))
    return second.kind === 'lost' ? second.outcome : second
  }

  /** No known agent has more than one page of tools. */
  async function tools(budget: Budget): Promise<ToolsOutcome> {
    const opened = await ready(budget)
    if (opened.kind === 'failed') return opened
    if (opened.kind === 'refused') return { kind: 'tools', tools: undefined }
    const question = posted('tools/list', {}, opened.session)
    const outcome = await rpc({ ...question, as: 'tools', bounds: boundsOf(options), budget })
    if (outcome.kind === 'failed' || outcome.kind === 'tools') return outcome
    return { kind: 'tools', tools: undefined }
  }

  return {
    protocol: 'mcp',
    call,
    tools,
    open: ready,
  }
}
