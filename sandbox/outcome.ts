/** What a task of a demo agent gives back, before the transport wraps it. */
import { type AdcpError, ERROR_CODES, type ErrorCode } from '../src/adcp/answer.js'

/** The flat response without its envelope; `status` only when it is not `completed`. */
export type Body = Record<string, unknown> & { message: string; status?: 'submitted' | TaskState }
/** What an unfinished task is said to be: an agent may wait for a person, or give up. */
export type TaskState = 'working' | 'input-required' | 'failed' | 'rejected' | 'canceled'
export type Outcome = { kind: 'done'; body: Body } | { kind: 'refused'; error: AdcpError }

/** Arguments as they came: agents validate what they use and tolerate the rest (docs/protocol.md#mcp). */
export type Args = Readonly<Record<string, unknown>>

export function done(body: Body): Outcome {
  return { kind: 'done', body }
}

/** The errors of the demo agents are as terse as those of real ones. */
export function errorOf(code: ErrorCode, message: string, parts: Partial<AdcpError> = {}): AdcpError {
  return { code, message, recovery: ERROR_CODES[code], ...parts }
}

/** A request that breaks a known rule; `field` names the argument. */
export function invalid(message: string, field?: string): Outcome {
  return { kind: 'refused', error: errorOf('INVALID_REQUEST', message, field ? { field } : {}) }
}

/** A handle or task that is missing or not the caller's: the answer is the same. */
export function notFound(field: string): Outcome {
  return { kind: 'refused', error: errorOf('REFERENCE_NOT_FOUND', 'No such reference.', { field }) }
}
