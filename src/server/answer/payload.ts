/**
 * The flat answer of a task as bytes: envelope and task fields side by side (specification, "Response body";
 * docs/protocol.md#envelope). Both transports write the same payload. Prepared rows stay the bytes they are: parsing
 * and serialising a page again would cost fourteen times its delivery (docs/decisions.md#serving-from-bytes).
 */
import type { AdcpError } from '../../adcp/error.js'
import type { Release } from '../../adcp/version.js'
import { answerText } from './answer-text.js'
import type { TaskAnswer } from './task.js'

export type Envelope = {
  release: Release
  contextId: string
  /** The JSON text of the caller's `context`, echoed byte for byte. */
  context?: string
}

export type Payload = {
  /** The task failed. */
  isError: boolean
  /** Why, in the words that all tasks have. */
  error?: AdcpError
  status: string
  message: string
  /** For people and language models: the message and what can be done with it. Made when it is asked for. */
  text: () => string
  /** Of a task of ours that is not finished yet. */
  taskId?: string
  contextId: string
  /** JSON text up to the rows, the rows, and the rest; without rows all of it is in `head`. */
  head: string
  rows: readonly Uint8Array[]
  tail: string
}

const PENDING = new Set(['submitted', 'working', 'input-required'])

type Answer = Extract<TaskAnswer, { kind: 'answer' }>

/** The members of an object as JSON, each with a comma before it. */
function members(fields: Readonly<Record<string, unknown>>): string {
  let text = ''
  for (const name in fields) {
    const value = fields[name]
    if (value !== undefined) text += `,${JSON.stringify(name)}:${JSON.stringify(value)}`
  }
  return text
}

function opening(status: string, message: string, { release, contextId }: Envelope): string {
  const names = `"message":${JSON.stringify(message)},"context_id":${JSON.stringify(contextId)}`
  return `{"status":"${status}",${names},"adcp_version":"${release}"`
}

function closing({ context }: Envelope): string {
  return context === undefined ? '}' : `,"context":${context}}`
}

function answered(answer: Answer, envelope: Envelope): Payload {
  const { status = 'completed', message, rows } = answer
  const { contextId } = envelope
  const open = PENDING.has(status) ? answer.fields.task_id : undefined
  const said = {
    isError: false,
    ...{ status, message, contextId },
    text: () => answerText(answer),
    ...(typeof open === 'string' && { taskId: open }),
  }
  const before = opening(status, message, envelope) + members(answer.fields)
  const errors = answer.warnings?.length ? `,"errors":${JSON.stringify(answer.warnings)}` : ''
  const after = (answer.replayed ? ',"replayed":true' : '') + errors + closing(envelope)
  if (!rows) return { ...said, head: before + after, rows: [], tail: '' }
  const head = `${before},${JSON.stringify(rows.field)}:[`
  return { ...said, head, rows: rows.parts, tail: `]${after}` }
}

function refused(error: AdcpError, envelope: Envelope): Payload {
  const { message } = error
  const json = JSON.stringify(error)
  const errors = `,"adcp_error":${json},"errors":[${json}]`
  const head = opening('failed', message, envelope) + errors + closing(envelope)
  const text = () => `{"adcp_error":${json}}`
  const { contextId } = envelope
  return { isError: true, error, status: 'failed', message, text, contextId, head, rows: [], tail: '' }
}

function failed({ message, fields }: Extract<TaskAnswer, { kind: 'failed' }>, envelope: Envelope): Payload {
  const head = opening('failed', message, envelope) + members(fields) + closing(envelope)
  const text = () => JSON.stringify({ message, ...fields })
  const { contextId } = envelope
  return { isError: true, status: 'failed', message, text, contextId, head, rows: [], tail: '' }
}

/** The payload of an answer; a refusal carries its error twice, as docs/protocol.md#envelope wants it. */
export function payloadOf(answer: TaskAnswer, envelope: Envelope): Payload {
  if (answer.kind === 'answer') return answered(answer, envelope)
  return answer.kind === 'failed' ? failed(answer, envelope) : refused(answer.error, envelope)
}
