/**
 * The errors this agent gives, declared once: code, recovery and the words of the specification ("Errors").
 * An error that is an answer to the caller is a value of type `AdcpError`; a bug is an exception.
 */
export type Recovery = 'correctable' | 'transient' | 'terminal'

/** Every code we emit, with what a caller can do about it (schemas enums/error-code). */
export const ERROR_CODES = {
  INVALID_REQUEST: 'correctable',
  VERSION_UNSUPPORTED: 'correctable',
  REFERENCE_NOT_FOUND: 'correctable',
  AGENT_ACCESS_DENIED: 'terminal',
  AUTH_REQUIRED: 'correctable',
  PERMISSION_DENIED: 'correctable',
  ACCOUNT_NOT_FOUND: 'terminal',
  IDEMPOTENCY_CONFLICT: 'correctable',
  RATE_LIMITED: 'transient',
  SERVICE_UNAVAILABLE: 'transient',
} as const satisfies Record<string, Recovery>

export type ErrorCode = keyof typeof ERROR_CODES
export type WarningCode =
  | 'PARTIAL_COVERAGE'
  | 'PRICING_UNAVAILABLE'
  | 'STALE_DATA'
  | 'UNKNOWN_FILTER'
  | 'REFERENCE_NOT_FOUND'
  | 'QUESTION_CUT'

/** One violated rule: where (RFC 6901), what, and the schema keyword behind it. */
export type Issue = { pointer: string; message: string; keyword: string }

export type AdcpError = {
  code: ErrorCode
  message: string
  recovery: Recovery
  field?: string
  suggestion?: string
  /** Seconds. */
  retry_after?: number
  issues?: Issue[]
  details?: Record<string, unknown>
}

export type AdcpWarning = {
  code: WarningCode
  message: string
  severity: 'warning'
  field?: string
  suggestion?: string
  details?: Record<string, unknown>
}

type ErrorParts = Omit<AdcpError, 'code' | 'message' | 'recovery'>

/** An error answer; `recovery` follows from the code. */
export function adcpError(code: ErrorCode, message: string, parts: ErrorParts = {}): AdcpError {
  return { code, message, recovery: ERROR_CODES[code], ...parts }
}
