/**
 * What it means to call an agent, whatever the transport: a task with arguments inside a budget, and one of three
 * outcomes. `transport/mcp.ts` and `transport/a2a.ts` implement it; everything to the right of them knows only this.
 */
import type { Send } from '../../net/send.js'
import type { ReadRows, RowBounds } from '../rows/read-rows.js'
import type { Protocol, UpstreamFailure } from './status.js'

export type Auth =
  | { type: 'none' }
  | { type: 'bearer'; token: string }
  | { type: 'header'; name: string; value: string }

export type Arguments = Readonly<Record<string, unknown>>

/** Budgets run on real time, not on the injected clock: they bound sockets, the clock moves schedules. */
export type Budget = {
  /** Time for the whole call, ms, an opening handshake included. */
  timeoutMs: number
  signal?: AbortSignal
}

/** A flat AdCP response object (docs/protocol.md#envelope). */
export type Payload = Readonly<Record<string, unknown>>

/** An AdCP error as the agent worded it. Untrusted text: bounded, never for a caller's eyes without thought. */
export type AgentError = {
  code: string
  message: string
  recovery?: 'correctable' | 'transient' | 'terminal'
  field?: string
  retryAfterMs?: number
  details?: Readonly<Record<string, unknown>>
  /** How the task stands that the answer is about, where it says so. */
  status?: string
  /** It was not sent: what it asks for cannot be said in the agent's dialect; `field` names it. */
  unsent?: true
}

export type CallFailure = {
  kind: 'failed'
  reason: UpstreamFailure
  message: string
  retryAfterMs?: number
}

export type AgentOutcome =
  /** `rows`: what the elements of `signals` are, in order; in `payload` that array is left empty. */
  { kind: 'answer'; payload: Payload; rows: ReadRows } | { kind: 'error'; error: AgentError } | CallFailure

export type Agent = {
  readonly protocol: Protocol
  call(task: string, args: Arguments, budget: Budget): Promise<AgentOutcome>
  /** The list of its tools, or of its skills, as it came; undefined when it gives none now. */
  tools(budget: Budget): Promise<unknown>
}

export type AgentOptions = {
  send: Send
  url: string
  auth: Auth
  /** Of its answers and the rows in them, as they hold now. */
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

/** Whether a task changes nothing at the agent. A transport repeats no other, whatever went wrong. */
export function isRead(task: string): boolean {
  return READS.has(task)
}

/** The headers that carry a credential (docs/protocol.md#mcp: agents read `Authorization`, some only `x-adcp-auth`). */
export function authHeaders(auth: Auth): Record<string, string> {
  if (auth.type === 'bearer') return { authorization: `Bearer ${auth.token}`, 'x-adcp-auth': auth.token }
  if (auth.type === 'header') return { [auth.name]: auth.value }
  return {}
}

export function callFailed(reason: UpstreamFailure, message: string, retryAfterMs?: number): CallFailure {
  return { kind: 'failed', reason, message, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

/** What is left of a budget that began at `startedAt`, never less than a millisecond. */
export function remaining(budget: Budget, startedAt: number, now: number): Budget {
  return { ...budget, timeoutMs: Math.max(1, budget.timeoutMs - (now - startedAt)) }
}
