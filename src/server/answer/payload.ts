/**
 * The flat answer of a task as bytes: envelope and task fields side by side (specification, "Response body";
 * docs/protocol.md#envelope). Both transports write the same payload. Prepared rows stay the bytes they are: parsing
 * and serialising a page again would cost fourteen times its delivery (docs/decisions.md#serving-from-bytes).
 */

import type { Answer, Answered, Failed } from '../../adcp/answer.js'
import type { AdcpError } from '../../adcp/error.js'
import type { Release } from '../../adcp/version.js'
import { answerText } from './answer-text.js'

export type Envelope = {
  release: Release
  contextId: string
  /** The JSON text of the caller's `context`, echoed byte for byte. */
  context?: string
}

/** A text, and the same as JSON. */
export type AnswerWords = { text(): string; json(): string }

export type AnswerPayload = {
  /** The task failed. */
  isError: boolean
  /** Why, in the words that all tasks have. */
  error?: AdcpError
  status: string
  message: string
  /** For people and language models: the message and what can be done with it. Made when it is asked for. */
  words: AnswerWords
  /** Of a task of ours that is not finished yet. */
  taskId?: string
  contextId: string
  /** JSON text up to the rows, the rows, and the rest; without rows all of it is in `head`. */
  head: string
  rows: readonly Uint8Array[]
  tail: string
  /** The same object is returned for a repeated request, so what is derived from it may be cached by it. */
  comesAgain: boolean
}

const PENDING = new Set(['submitted', 'working', 'input-required'])

/** The members of an object as JSON, each with a comma before it. */
function members(fields: Readonly<Record<string, unknown>>): string {
  let text = ''
  for (const name in fields) {
    const value = fields[name]
    if (value !== undefined) text += `,${JSON.stringify(name)}:${JSON.stringify(value)}`
  }
  return text
}

/** Up to what depends on the caller. */
function opening(status: string, message: string): string {
  return `{"status":"${status}","message":${JSON.stringify(message)},"context_id":`
}

function identity({ release, contextId }: Envelope): string {
  return `${JSON.stringify(contextId)},"adcp_version":"${release}"`
}

function closing({ context }: Envelope): string {
  return context === undefined ? '}' : `,"context":${context}}`
}

/** A text that is made when it is asked for, once. */
export function answerWords(make: () => string): AnswerWords {
  let text: string | undefined
  let json: string | undefined
  const made = () => {
    text ??= make()
    return text
  }
  return {
    text: made,
    json() {
      json ??= JSON.stringify(made())
      return json
    },
  }
}

/** The part of an answer that is the same for everybody: JSON text around the part that depends on the caller. */
type Frame = {
  before: string
  between: string
  rows: readonly Uint8Array[]
  after: string
  words: AnswerWords
}
/** Of an answer that is given again; and its payloads for callers that send no context, by their conversations. */
type KeptFrame = Frame & { payloads: Map<string, { release: Release; payload: AnswerPayload }> }

const MOST_CONVERSATIONS = 100 // an answer of its own for each caller

function frameOf(answer: Answered): Frame {
  const { status = 'completed', message, rows } = answer
  const errors = answer.warnings?.length ? `,"errors":${JSON.stringify(answer.warnings)}` : ''
  const after = (answer.replayed ? ',"replayed":true' : '') + errors
  const before = opening(status, message)
  const words = answerWords(() => answerText(answer))
  const fields = members(answer.fields)
  if (!rows) return { before, between: fields + after, rows: [], after: '', words }
  const between = `${fields},${JSON.stringify(rows.field)}:[`
  return { before, between, rows: rows.parts, after: `]${after}`, words }
}

const frames = new WeakMap<Answered, KeptFrame>()

function keptFrame(answer: Answered): KeptFrame {
  const known = frames.get(answer)
  if (known) return known
  const made: KeptFrame = { ...frameOf(answer), payloads: new Map() }
  frames.set(answer, made)
  return made
}

function framed(answer: Answered, frame: Frame, envelope: Envelope, comesAgain: boolean): AnswerPayload {
  const { status = 'completed', message } = answer
  const { contextId } = envelope
  const { before, between, rows, after, words } = frame
  const open = PENDING.has(status) ? answer.fields.task_id : undefined
  const head = before + identity(envelope) + between
  const isWhole = rows.length === 0 && after === ''
  const tail = after + closing(envelope)
  return {
    isError: false,
    ...{ status, message, words, contextId, rows, comesAgain },
    ...(isWhole ? { head: head + tail, tail: '' } : { head, tail }),
    ...(typeof open === 'string' && { taskId: open }),
  }
}

function answered(answer: Answered, envelope: Envelope): AnswerPayload {
  if (!answer.comesAgain) return framed(answer, frameOf(answer), envelope, false)
  const frame = keptFrame(answer)
  const { release, contextId, context } = envelope
  if (context !== undefined) return framed(answer, frame, envelope, false)
  const { payloads } = frame
  const known = payloads.get(contextId)
  if (known?.release === release) return known.payload
  if (payloads.size >= MOST_CONVERSATIONS) payloads.clear()
  const payload = framed(answer, frame, envelope, true)
  payloads.set(contextId, { release, payload })
  return payload
}

function refused(error: AdcpError, envelope: Envelope): AnswerPayload {
  const { message } = error
  const json = JSON.stringify(error)
  const errors = `,"adcp_error":${json},"errors":[${json}]`
  const head = opening('failed', message) + identity(envelope) + errors + closing(envelope)
  const words = answerWords(() => `{"adcp_error":${json}}`)
  const { contextId } = envelope
  const rest = { words, contextId, head, rows: [], tail: '', comesAgain: false }
  return { isError: true, error, status: 'failed', message, ...rest }
}

function failed({ message, fields }: Failed, envelope: Envelope): AnswerPayload {
  const head = opening('failed', message) + identity(envelope) + members(fields) + closing(envelope)
  const words = answerWords(() => JSON.stringify({ message, ...fields }))
  const { contextId } = envelope
  const rest = { words, contextId, head, rows: [], tail: '', comesAgain: false }
  return { isError: true, status: 'failed', message, ...rest }
}

/** The payload of an answer; a refusal carries its error twice, as docs/protocol.md#envelope wants it. */
export function payloadOf(answer: Answer, envelope: Envelope): AnswerPayload {
  if (answer.kind === 'answer') return answered(answer, envelope)
  return answer.kind === 'failed' ? failed(answer, envelope) : refused(answer.error, envelope)
}
