/**
 * A2A's own errors. 1.0 says in `data` which of them it is, for all bindings alike (A2A 1.0, section 9.5); 0.3 has the code
 * alone. Those of JSON-RPC are the same in both.
 */
import { rpcError } from '../answer/json-rpc.js'
import type { A2aRelease } from './a2a-message.js'

/** For a task that is not there, or is another caller's. */
export const TASK_NOT_FOUND = -32_001
/** For a notification in A2A's own way, which we do not send. */
export const PUSH_NOT_SUPPORTED = -32_003
/** For a message to a task that has ended. */
export const UNSUPPORTED_OPERATION = -32_004
/** For a version that the agent card does not list. */
export const VERSION_NOT_SUPPORTED = -32_009

const REASONS: Readonly<Record<number, string>> = {
  [TASK_NOT_FOUND]: 'TASK_NOT_FOUND',
  [PUSH_NOT_SUPPORTED]: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
  [UNSUPPORTED_OPERATION]: 'UNSUPPORTED_OPERATION',
  [VERSION_NOT_SUPPORTED]: 'VERSION_NOT_SUPPORTED',
}

const INFO = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', domain: 'a2a-protocol.org' }

/** The JSON text of an error response, in the words of a release. `id`: JSON text of the request's. */
export function a2aError(id: string, code: number, message: string, release: A2aRelease): string {
  const reason = release === '1.0' ? REASONS[code] : undefined
  return rpcError(id, code, message, reason && [{ ...INFO, reason }])
}
