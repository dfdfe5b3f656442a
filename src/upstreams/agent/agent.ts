/**
 * What it means to call an agent over any transport: a task with arguments and a budget, and one of three outcomes.
 * `transport/mcp.ts` and `transport/a2a.ts` implement this contract, and all other code uses only the contract.
 */
import type { Send } from '../../net/send.js'
import type { ReadRows, RowBounds } from '../rows/read-rows.js'
import type { Protocol, UpstreamFailure } from './status.js'

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
  /** The status of the task in the answer, when it states one. */
  status?: string
  /** Not sent, because the agent's dialect cannot express the request; `field` names the argument. */
  unsent?: true
}

export type CallFailure = {
  kind: 'failed'
  reason: UpstreamFailure
  message: string
  retryAfterMs?: number
}

export type AgentOutcome =
  /** `rows`: the elements of `signals`, in order; `payload` has an empty array in their place. */
  { kind: 'answer'; payload: Payload; rows: ReadRows } | { kind: 'error'; error: AgentError } | CallFailure

export type Agent = {
  readonly protocol: Protocol
  call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome>
  /** The list of its tools or skills, as received; undefined when it returns none now. */
  tools(budget: Budget): Promise<unknown>
}

export type AgentOptions = {
  send: Send
  url: string
  auth: Auth
  /** The current bounds on its answers and the rows in them. */
  bounds?: () => RowBounds
}

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
export function remaining(budget: Budget, startedAt: number, now: number): Budget {
  return { ...budget, timeoutMs: Math.max(1, budget.timeoutMs - (now - startedAt)) }
}
