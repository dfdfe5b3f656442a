/** What a task answers, whichever room it is written in; the transports add the envelope around it. */
import { type AdcpWarning, adcpError, type ErrorCode, type ErrorParts, type Refused } from './error.js'

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
  rows?: { field: string; parts: readonly Uint8Array[] }
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

/** How many of what, as it is said: `1 signal`, `0 signals`, `2 entries`. */
export function howMany(count: number, noun: string): string {
  return `${count} ${count === 1 ? noun : `${noun.replace(/([^aeiou])y$/, '$1ie')}s`}`
}

/** The refusal of a request, with an error of the protocol (adcp/error.ts). */
export function refuse<C extends ErrorCode>(code: C, message: string, parts: ErrorParts<C>): Refused {
  return { kind: 'refused', error: adcpError(code, message, parts) }
}
