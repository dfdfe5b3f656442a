/**
 * An agent, whatever its transport: a task with arguments and a budget, and one of three outcomes. `mcp.ts` and `a2a.ts`
 * implement this contract, and all other code uses only the contract. This file also says what an outcome is worth: which of its
 * texts may be shown, and when a complete answer is not believed at once.
 */
import { redacted, redactedValue, searchable, secretsInUrl } from '../../adcp/redaction.js'
import type { Send } from '../../net/send.js'
import type { ReadRows, RowBounds } from '../rows/read-rows.js'
import type { ListedTool } from './tool-list.js'

const SECOND_LOOK_MS = 30_000 // the longest wait before the second look
const MAX_TASK_ID = 255 // characters
const FEW = 10 // with fewer rows, a loss of half is normal

const READS: ReadonlySet<string> = new Set([
  'get_adcp_capabilities',
  'get_protocol_capabilities',
  'get_signals',
  'get_task_status',
  'tasks/get',
  'tasks_get',
  'list_tasks',
  'list_accounts',
])

export type Protocol = 'mcp' | 'a2a'

/** Why a call or a reading failed; the same words in logs, metrics, explain and docs/upstreams.md. */
export type UpstreamFailure =
  | 'refused' // our egress policy forbids the address
  | 'unresolvable'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'unauthorized' // 401 or 403: our credential is missing or wrong
  | 'rate_limited'
  | 'server_error'
  | 'not_an_agent' // nothing at the url speaks MCP or A2A
  | 'protocol_error' // it answers, but in a shape that no dialect reads
  | 'agent_error' // an AdCP error answer
  | 'account_needed' // it answers nobody without an account that it knows
  | 'not_signals' // it refuses, and says itself that it offers something else
  | 'incomplete_feed' // it reports itself that its feed is not complete
  | 'cursor_loop'
  | 'endless_feed'
  | 'over_memory' // the memory for rows or answers is full, and this upstream uses most of it
  | 'unstable_feed' // its version kept changing during the walk
  | 'shrunken_feed' // most of its rows are gone: believed when a second answer agrees
  | 'not_enumerable' // brief-only, and no definition or seed question finds its signals
  | 'backing_off' // not asked: it failed moments ago and its next probe is due soon
  | 'unrepeatable' // it may have received the call before, and would not recognise the repetition
  | 'aborted' // our caller gave up
  | 'unknown_upstream' // no upstream of that url in the roster

export type Auth =
  | { type: 'none' }
  | { type: 'bearer'; token: string }
  | { type: 'header'; name: string; value: string }

export type Arguments = Readonly<Record<string, unknown>>

/** Budgets use real time, not the injected clock: they limit sockets, while the clock drives schedules. */
export type Budget = {
  /** Time for the whole call, ms, including a handshake. */
  timeoutMs: number
  signal?: AbortSignal
  /** A caller waits for the answer. */
  isAwaited?: boolean
  /** Of a change: asked when the request that carries it is about to be written (net/send.ts). */
  mayBegin?: () => boolean
}

/** A flat AdCP response object (docs/protocol.md#envelope). */
export type Payload = Readonly<Record<string, unknown>>

/** An AdCP error in the agent's words. Untrusted text: bounded, and not to be shown to callers unchecked. */
export type AgentError = {
  code: string
  message: string
  recovery?: 'correctable' | 'transient' | 'terminal'
  field?: string
  retryAfterMs?: number
  details?: Readonly<Record<string, unknown>>
  /** It is JSON-RPC's, by this code: what speaks there did not come to the task. */
  rpcCode?: number
  /** Not sent, because the agent's dialect cannot express the request; `field` names the argument. */
  unsent?: true
}

export type CallFailure = {
  kind: 'failed'
  reason: UpstreamFailure
  message: string
  retryAfterMs?: number
  /** Of a change: it was not sent. */
  unsent?: true
}

export type AgentOutcome =
  /**
   * `rows`: the elements of `signals`, in order; `payload` has an empty array in their place. `isOwnTask`: the `task_id` in it is
   * that of the A2A task that brought it.
   */
  | { kind: 'answer'; payload: Payload; rows: ReadRows; isOwnTask?: true }
  /** `payload`: the answer that says that it failed, because it may show what was done all the same; without its rows. */
  | { kind: 'error'; error: AgentError; payload?: Payload; isOwnTask?: true }
  | CallFailure

/** Its tools or skills; undefined when it has no list. */
export type ToolsOutcome = { kind: 'tools'; tools: readonly ListedTool[] | undefined } | CallFailure

export type Agent = {
  readonly protocol: Protocol
  call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome>
  tools(budget: Budget): Promise<ToolsOutcome>
}

export type AgentOptions = {
  send: Send
  url: string
  auth: Auth
  /** The current bounds on its answers and the rows in them. */
  bounds?: () => RowBounds
}

/** Whether it can be the id of a task at an agent: such ids are stored, and sent as long as the task goes on. */
export function namesTask(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_TASK_ID
}

/** Whether a task changes nothing at the agent. Transports repeat only such tasks. */
export function isRead(task: string): boolean {
  return READS.has(task)
}

/** The headers that carry a credential (docs/protocol.md#mcp: agents read `Authorization`, some only `x-adcp-auth`). */
export function authHeaders(auth: Auth): Record<string, string> {
  if (auth.type === 'bearer') return { authorization: `Bearer ${auth.token}`, 'x-adcp-auth': auth.token }
  if (auth.type === 'header') return { [auth.name]: auth.value }
  return {}
}

/** A call that brought no answer. `retryAfterMs`: when the agent said to come back. */
export function callFailed(reason: UpstreamFailure, message: string, retryAfterMs?: number): CallFailure {
  return { kind: 'failed', reason, message, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

/** The rest of a budget that began at `startedAt`, at least one millisecond. */
export function remaining(budget: Budget, startedAt: number): Budget {
  return { ...budget, timeoutMs: Math.max(1, budget.timeoutMs - (Date.now() - startedAt)) }
}

/** The secrets that are sent to `url`: in headers with these values, and in the url itself. */
export function secretsShown(values: readonly string[], url: string): string[] {
  const parts = values.flatMap((value) => [value, ...value.split(/\s+/)]) // `Basic abc`: an error may repeat either
  return searchable([...parts, ...secretsInUrl(url)])
}

/** The secrets that are sent to an agent at `url`. */
export function secretsOf(auth: Auth, url: string): string[] {
  return secretsShown(auth.type === 'bearer' ? [auth.token] : auth.type === 'header' ? [auth.value] : [], url)
}

/** The bounds on what an agent answers; where none are given, its texts are cleaned of its own credential all the same. */
export function boundsOf({ auth, url, bounds }: AgentOptions): RowBounds {
  return bounds?.() ?? { secrets: secretsOf(auth, url) }
}

/**
 * The outcome with secrets removed from how it failed: errors repeat what they refuse, and errors are stored and shown. What a payload
 * says of it has none, because it is cleaned where it is read (`answer.ts`). `secrets` is called only where there is such a text.
 */
export function withoutSecrets(outcome: AgentOutcome, secrets: () => readonly string[]): AgentOutcome {
  if (outcome.kind === 'failed') return { ...outcome, message: redacted(outcome.message, secrets()) }
  if (outcome.kind === 'answer') return outcome
  return { ...outcome, error: redactedValue(outcome.error, secrets()) as AgentError }
}

type DoubtOptions = {
  /** What is counted, for people. Default: rows. */
  of?: string
  /** How often it is read, ms: the second look does not wait longer. */
  refreshMs: number
  now(): number
}

function isLoss(before: number, rows: number): boolean {
  return rows === 0 ? before > 0 : before >= FEW && rows * 2 < before
}

/**
 * Doubts the answers of one agent, or the listings of one registry. A complete answer that has lost most of its rows is not
 * believed at once, because an agent that restarts may answer before its data is loaded. It is believed when a second, later answer
 * has no more rows than the first (docs/decisions.md#doubted-answers). When the second has more, the agent is still loading.
 */
export function createDoubt({ of = 'rows', refreshMs, now }: DoubtOptions) {
  const laterMs = Math.min(SECOND_LOOK_MS, refreshMs)
  let first: { rows: number; at: number } | undefined

  function clear(): void {
    first = undefined
  }

  /** Why an answer with `rows` rows cannot replace one with `before` rows yet; undefined when it can. */
  function about(before: number, rows: number): CallFailure | undefined {
    if (!isLoss(before, rows)) {
      clear()
      return undefined
    }
    const isLater = first && now() - first.at >= laterMs / 2
    if (first && isLater && rows <= first.rows) {
      clear()
      return undefined
    }
    if (!first || isLater) first = { rows, at: now() }
    return callFailed('shrunken_feed', `${rows} of ${before} ${of} are left`, first.at + laterMs - now())
  }

  return { about, clear }
}

export type Doubt = ReturnType<typeof createDoubt>
