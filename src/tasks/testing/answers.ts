/** What comply_test_controller says (schema compliance/comply-test-controller-response): success or error, in words of its own. */
import type { Answer } from '../../adcp/answer.js'

type ControllerError =
  | 'INVALID_TRANSITION'
  | 'INVALID_STATE'
  | 'NOT_FOUND'
  | 'UNKNOWN_SCENARIO'
  | 'INVALID_PARAMS'
  | 'FORBIDDEN'

export function succeeded(message: string, fields: Readonly<Record<string, unknown>> = {}): Answer {
  return { kind: 'answer', message, fields: { success: true, ...fields } }
}

/** `detail` holds no text of a stranger. */
export function refusedTest(error: ControllerError, detail: string, current?: string): Answer {
  const state = current === undefined ? {} : { current_state: current }
  return {
    kind: 'failed',
    message: detail,
    fields: { success: false, error, error_detail: detail, ...state },
  }
}
