/**
 * The contract of a task: what the dispatcher needs to offer it over MCP and A2A alike.
 * A task's file in `tasks/` reads as the specification's section: rules, handler, message. What it takes is in adcp/task-schemas.ts
 * and adcp/signal-requests.ts.
 */
import type { Answer, Release } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import type { Static, TSchema } from '../adcp/schema.js'

export type CallContext = {
  readonly caller: Caller
  /** The release that is served: the highest of ours that is not above the caller's pin (docs/protocol.md#versions). */
  readonly release: Release
  /** When the request arrived, ms since the epoch. */
  readonly now: number
  /** When the answer has to leave, ms since the epoch (docs/decisions.md#deadlines). */
  readonly deadline: number
  /** Goes off at the deadline and when the caller hangs up. */
  readonly signal: AbortSignal
  readonly contextId: string
  readonly transport: 'mcp' | 'a2a'
  /** For log lines. */
  readonly requestId: string
  /** A repeated request has the same input object, so what is derived from it may be cached by it. */
  readonly comesAgain: boolean
}

export type Task<S extends TSchema = TSchema> = {
  readonly name: string
  /** Other names a caller may use; they are offered as tools and skills too. */
  readonly aliases?: readonly string[]
  /** Names that clients call and that are not offered: they are from earlier releases, or hosts would reject them. */
  readonly answersTo?: readonly string[]
  readonly title: string
  /** Written for a language model that chooses among tools: what it gives, when to use it, what to send. */
  readonly description: string
  /** Validated before `handle` runs. It spreads `requestEnvelope` (adcp/task-schemas.ts) and tolerates unknown fields. */
  readonly request: S
  /** What MCP hosts are told of its answers (adcp/task-schemas.ts). */
  readonly response?: TSchema
  /** Can undo existing effects: hosts may ask their user first. */
  readonly destructive?: boolean
  /** Changes state: anonymous callers are refused before `handle` runs. */
  readonly mutating: boolean
  /** Which of its questions was asked, in a closed word: they take different times. The input was not checked. */
  modeOf?(input: unknown): string
  /**
   * Whether a question needs no more than the rows of a feed, as at a start that goes on with a saved one. Absent: each
   * needs more.
   */
  isPlain?(input: Static<S>, caller: Caller): boolean
  /** Never throws for a caller's mistake. What it throws is a bug: logged, answered as SERVICE_UNAVAILABLE. */
  handle(input: Static<S>, context: CallContext): Answer | Promise<Answer>
}
