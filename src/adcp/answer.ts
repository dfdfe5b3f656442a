/**
 * What a task answers, whichever room it is written in: its fields, or an error; and in which release of the protocol
 * (specification, "Versioning"; docs/protocol.md#versions). The transports add the envelope around it. The errors this agent
 * gives are declared once: code, recovery and the words of the specification ("Errors"). An error that is an answer to the
 * caller is a value of type `AdcpError`; a bug is an exception.
 */
import { isRecord } from './json.js'

/** How many of what, as it is said: `1 signal`, `0 signals`, `2 entries`. */
export function howMany(count: number, noun: string): string {
  return `${count} ${count === 1 ? noun : `${noun.replace(/([^aeiou])y$/, '$1ie')}s`}`
}

/** The first so many names, and how many others there are: `a, b and 3 more`. */
export function firstOf(most: number, names: readonly string[]): string {
  const others = names.length - most
  return `${names.slice(0, most).join(', ')}${others > 0 ? ` and ${others} more` : ''}`
}

type Recovery = 'correctable' | 'transient' | 'terminal'

/** Every code we emit, with what a caller can do about it (schemas enums/error-code). */
export const ERROR_CODES = {
  INVALID_REQUEST: 'correctable',
  VALIDATION_ERROR: 'correctable',
  VERSION_UNSUPPORTED: 'correctable',
  REFERENCE_NOT_FOUND: 'correctable',
  AGENT_ACCESS_DENIED: 'terminal',
  AUTH_REQUIRED: 'correctable',
  PERMISSION_DENIED: 'correctable',
  ACCOUNT_NOT_FOUND: 'terminal',
  ACCOUNT_SUSPENDED: 'terminal',
  ACCOUNT_PAYMENT_REQUIRED: 'terminal',
  BILLING_NOT_SUPPORTED: 'correctable',
  UNSUPPORTED_FEATURE: 'correctable',
  IDEMPOTENCY_CONFLICT: 'correctable',
  RATE_LIMITED: 'transient',
  SERVICE_UNAVAILABLE: 'transient',
} as const satisfies Record<string, Recovery>

export type ErrorCode = keyof typeof ERROR_CODES
type WarningCode =
  | 'PARTIAL_COVERAGE'
  | 'PRICING_UNAVAILABLE'
  | 'PRICES_CONVERTED'
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

/** Codes that blame a part of the request: their errors must name the field. */
type Blaming =
  | 'INVALID_REQUEST'
  | 'VALIDATION_ERROR'
  | 'REFERENCE_NOT_FOUND'
  | 'ACCOUNT_NOT_FOUND'
  | 'BILLING_NOT_SUPPORTED'
  | 'UNSUPPORTED_FEATURE'
  | 'VERSION_UNSUPPORTED'

type Rest = Omit<AdcpError, 'code' | 'message' | 'recovery' | 'field' | 'suggestion'>

/**
 * What an error carries in addition to its code and message: what to send instead, and the field that is meant.
 * IDEMPOTENCY_CONFLICT may carry no further member (docs/protocol.md#accounts).
 */
type ErrorParts<C extends ErrorCode> = [C] extends ['IDEMPOTENCY_CONFLICT']
  ? { [name in keyof Rest | 'field' | 'suggestion']?: never }
  : Rest & { suggestion: string } & ([Extract<C, Blaming>] extends [never]
        ? { field?: string }
        : { field: string })

/** An error answer; `recovery` follows from the code. */
export function adcpError<C extends ErrorCode>(code: C, message: string, parts: ErrorParts<C>): AdcpError {
  return { code, message, recovery: ERROR_CODES[code], ...parts }
}

/** The answer to a request that is refused unchanged: the caller has to send something else. */
export type Refused = { kind: 'refused'; error: AdcpError }

/** The refusal of a request. */
export function refuse<C extends ErrorCode>(code: C, message: string, parts: ErrorParts<C>): Refused {
  return { kind: 'refused', error: adcpError(code, message, parts) }
}

export type AnswerStatus = 'completed' | 'submitted' | 'working' | 'input-required' | 'rejected' | 'canceled'

/** The envelope (status, message, context, context_id, adcp_version, errors) is added around it. */
export type Answered = {
  kind: 'answer'
  /** Default: `completed`. */
  status?: AnswerStatus
  /** One or two sentences for people and language models; no untrusted text in it (docs/protocol.md#envelope). */
  message: string
  /** The task's own fields, as JSON values. Fields with the value undefined are left out. */
  fields: Readonly<Record<string, unknown>>
  /** A field whose value is an array of prepared JSON rows, written as the bytes they are. */
  rows?: {
    field: string
    parts: readonly Uint8Array[]
    /** How many of them the answer tells in words, too, at most. Default: ten. */
    inWords?: number
  }
  /** Written to `errors[]` with `severity: "warning"`. */
  warnings?: readonly AdcpWarning[]
  /** Set when the same object is given again for a repeated request, so a reader may cache what it derives from it. */
  comesAgain?: boolean
  /** Only on the replay of a request whose idempotency key was seen before. */
  replayed?: boolean
}

/** A failed task that explains the failure in its own words. */
export type Failed = { kind: 'failed'; message: string; fields: Readonly<Record<string, unknown>> }

export type Answer = Answered | Refused | Failed

/**
 * The entries of `errors[]` without its warnings, which may stand beside them in any order (docs/protocol.md#envelope). One that is
 * no object is taken for a message.
 */
export function failuresAmong(errors: unknown): Record<string, unknown>[] {
  if (!Array.isArray(errors)) return []
  return errors
    .filter(Boolean)
    .map((error): Record<string, unknown> => (isRecord(error) ? error : { message: error }))
    .filter(({ severity }) => severity !== 'warning')
}

export const RELEASES = ['3.0', '3.1'] as const
/**
 * Releases that are not final yet. They are served only where the configuration allows it, and only to callers that pin
 * exactly them.
 */
export const PREVIEWS = ['3.2-beta.5'] as const
type Stable = (typeof RELEASES)[number]
export type Preview = (typeof PREVIEWS)[number]
export type Release = Stable | Preview
export const MAJOR = 3
const LATEST: Stable = '3.1'

export type VersionPin = { adcp_version?: string; adcp_major_version?: number }

type ParsedPin = { major: number; minor: number; prerelease: boolean }

function parsePin(pin: string): ParsedPin | undefined {
  const match = /^(\d+)\.(\d+)(-.+)?$/.exec(pin)
  return match
    ? { major: Number(match[1]), minor: Number(match[2]), prerelease: match[3] !== undefined }
    : undefined
}

const minorOf = (release: Stable) => Number(release.slice(release.indexOf('.') + 1))

/** Whether this release has the requirements that 3.2 adds to 3.1. */
export function isSince32(release: Release): boolean {
  return PREVIEWS.some((preview) => preview === release)
}

/**
 * The highest of our releases that is not above the pin and has the same major; the latest when nothing is pinned, or
 * the major alone. Refused are another major, a pin below all of ours, two pins of different majors, and a prerelease
 * that is not one of `previews`: a prerelease matches only itself.
 */
export function negotiate(pin: VersionPin, previews: readonly Preview[] = []): Release | AdcpError {
  const served = [...RELEASES, ...previews]
  const unsupported = (field: 'adcp_version' | 'adcp_major_version', why: string) =>
    adcpError('VERSION_UNSUPPORTED', `This agent speaks AdCP ${served.join(', ')}: ${why}.`, {
      field,
      suggestion: 'Send adcp_version as one of details.supported_versions, or leave both pins out.',
      details: { supported_versions: served, supported_majors: [MAJOR], ...pin },
    })
  const { adcp_version: version, adcp_major_version: major } = pin
  const parsed = version === undefined ? undefined : parsePin(version)
  if (major !== undefined && parsed && parsed.major !== major) {
    return unsupported('adcp_major_version', 'the two pins name different majors')
  }
  if (major !== undefined && major !== MAJOR) {
    return unsupported('adcp_major_version', `it has no major ${major}`)
  }
  if (version === undefined) return LATEST
  if (parsed?.major !== MAJOR) return unsupported('adcp_version', 'the pin is of another major')
  if (parsed.prerelease) {
    const preview = previews.find((one) => one === version)
    return preview ?? unsupported('adcp_version', 'a prerelease is not served as another release')
  }
  const release = RELEASES.findLast((one) => minorOf(one) <= parsed.minor)
  return release ?? unsupported('adcp_version', 'the pin is below all of them')
}
