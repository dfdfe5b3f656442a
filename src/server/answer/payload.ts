/**
 * The flat answer of a task, as text and as bytes.
 *
 * The text is for language models and people: what the answer says, the rows to continue with, and what to do next. It is
 * bounded, because hosts put it into a prompt. Names come from strangers: they are quoted, kept on one line and cut.
 * The bytes are envelope and task fields side by side (specification, "Response body"; docs/protocol.md#envelope), the same
 * over both transports. Prepared rows stay the bytes they are: parsing and serialising a page again would cost fourteen times
 * its delivery (docs/decisions.md#serving-from-bytes).
 */
import type { AdcpError, Answer, Answered, Failed, Release } from '../../adcp/answer.js'
import { bufferOf, endOfValue, isRecord } from '../../adcp/json.js'
import { nameHash, step } from '../../upstreams/rows/written.js'

const ROWS_IN_WORDS = 10
const MOST_KNOWN = 2_000 // pages of one chunk of a snapshot whose text is remembered
const FEW = 3 // prices and destinations of one row
const NAME = 80
const FIELDS = 2_000
const MOST_CONVERSATIONS = 100 // an answer of its own for each caller

const NEXT_STEP =
  'To buy one: activate_signal with its signal_agent_segment_id, a pricing_option_id, destinations and a new idempotency_key.'

const ONLY_DATA = 'The signals of this page stand in structuredContent.signals.'

const PENDING = new Set(['submitted', 'working', 'input-required'])

/** What the words say of a row: a fifth of it. Parsing whole rows cost a sixth of a page that nobody asked for before. */
const NEEDED = new Map(
  [
    'signal_agent_segment_id',
    'name',
    'signal_type',
    'data_provider',
    'coverage_percentage',
    'deployments',
    'pricing_options',
  ].map((name) => [nameHash(name), name] as const),
)
const [QUOTE, COMMA, OPEN, CLOSE] = [0x22, 0x2c, 0x7b, 0x7d]

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

type FirstRows = { rows: Record<string, unknown>[]; more: boolean }

/** The needed members of the row that opens at `open`, and the index after it; undefined when its end is not here. */
function rowAt(bytes: Buffer, open: number): { row: Record<string, unknown>; end: number } | undefined {
  const row: Record<string, unknown> = {}
  let at = open
  while (at < bytes.length && bytes[at] !== CLOSE) {
    let hash = 0
    for (at += 2; at < bytes.length && bytes[at] !== QUOTE; at += 1) hash = step(hash, bytes[at] as number)
    const start = at + 2
    at = endOfValue(bytes, start)
    if (at >= bytes.length) return undefined
    const name = NEEDED.get(hash)
    if (name !== undefined) row[name] = JSON.parse(bytes.toString('utf8', start, at))
  }
  return at < bytes.length ? { row, end: at + 1 } : undefined
}

/**
 * Of a page's bytes, which we wrote and are objects with commas between them: the first rows, and whether there are more.
 * Where a row is divided among parts, they are joined first. A row that ends in none of them is not read.
 */
export function firstRows(parts: readonly Uint8Array[], most: number): FirstRows {
  const rows: FirstRows['rows'] = []
  for (const part of parts) {
    const bytes = bufferOf(part)
    let at = 0
    while (at < bytes.length) {
      if (bytes[at] === COMMA) {
        at += 1
        continue
      }
      if (rows.length === most) return { rows, more: true }
      const found = bytes[at] === OPEN ? rowAt(bytes, at) : undefined
      if (!found) return parts.length > 1 ? firstRows([Buffer.concat(parts)], most) : { rows, more: true }
      rows.push(found.row)
      at = found.end
    }
  }
  return { rows, more: false }
}

const records = (value: unknown) => (Array.isArray(value) ? value.filter(isRecord) : [])

function quoted(value: unknown): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these would break out of the line
  const line = String(value ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
  return JSON.stringify(line.length > NAME ? `${line.slice(0, NAME - 1)}…` : line)
}

/** The first of them in words, and how many more there are. */
function several(
  all: readonly Record<string, unknown>[],
  inWords: (one: Record<string, unknown>) => string,
): string {
  const more = all.length - FEW
  return all.slice(0, FEW).map(inWords).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function price(option: Record<string, unknown>): string {
  const { model, currency, cpm, amount, percent, pricing_option_id: id } = option
  const figure = cpm ?? amount ?? (percent === undefined ? '' : `${percent}%`)
  return `${[figure, currency, model].filter((part) => part !== undefined && part !== '').join(' ')} (pricing_option_id ${id})`
}

function destination(deployment: Record<string, unknown>): string {
  const { platform, agent_url, account, is_live } = deployment
  const place = quoted(platform ?? agent_url)
  return `${place}${account === undefined ? '' : ` account ${quoted(account)}`}${is_live === true ? ' (live)' : ''}`
}

function rowText(row: Record<string, unknown>, at: number): string {
  const { name, data_provider, signal_type, signal_agent_segment_id, coverage_percentage } = row
  const prices = records(row.pricing_options)
  const places = records(row.deployments)
  return [
    `${at + 1}. ${quoted(name)}`,
    [signal_type, data_provider === undefined ? '' : `by ${quoted(data_provider)}`].filter(Boolean).join(' '),
    `signal_agent_segment_id ${signal_agent_segment_id}`,
    ...(prices.length > 0 ? [`price ${several(prices, price)}`] : []),
    ...(places.length > 0 ? [`destinations ${several(places, destination)}`] : []),
    ...(coverage_percentage === undefined ? [] : [`coverage ${coverage_percentage}%`]),
  ].join('; ')
}

function rowsText(parts: readonly Uint8Array[], most: number): string {
  const { rows, more } = firstRows(parts, most)
  const lines = rows.map(rowText)
  if (more) lines.push('More signals of this page stand in structuredContent.signals.')
  if (lines.length > 0) lines.push(NEXT_STEP)
  return lines.join('\n')
}

/** A snapshot never changes: the text for its bytes stays valid as long as they exist. */
const known = new WeakMap<ArrayBufferLike, Map<string, string>>()

function knownText(parts: readonly Uint8Array[], most: number): string {
  const [whole] = parts
  if (!whole || parts.length > 1 || !(whole.buffer instanceof SharedArrayBuffer)) return rowsText(parts, most)
  const texts = known.get(whole.buffer) ?? new Map<string, string>()
  known.set(whole.buffer, texts)
  const place = `${whole.byteOffset}+${whole.byteLength} ${most}`
  const text = texts.get(place) ?? rowsText(parts, most)
  if (texts.size >= MOST_KNOWN) texts.clear()
  texts.set(place, text)
  return text
}

function signalsText({ rows, fields, message }: Answered & { rows: NonNullable<Answered['rows']> }): string {
  const { pagination } = fields
  const { parts, inWords = ROWS_IN_WORDS } = rows
  const said = inWords === 0 ? ONLY_DATA : knownText(parts, inWords)
  const cursor = isRecord(pagination) ? pagination.cursor : undefined
  const more = typeof cursor === 'string' ? `Next page: pagination.cursor ${JSON.stringify(cursor)}.` : ''
  return [message, said, more].filter((line) => line !== '').join('\n')
}

/** The answer in words. */
function answerText(answer: Answered): string {
  const { rows, fields, message } = answer
  if (rows) return signalsText({ ...answer, rows })
  const data = JSON.stringify(fields)
  if (data === '{}') return message
  return data.length <= FIELDS ? `${message}\n${data}` : `${message}\nThe details stand in structuredContent.`
}

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

function failing(message: string, more: string, said: () => string, envelope: Envelope): AnswerPayload {
  const head = opening('failed', message) + identity(envelope) + more + closing(envelope)
  const { contextId } = envelope
  const words = answerWords(said)
  return {
    isError: true,
    status: 'failed',
    message,
    words,
    contextId,
    head,
    rows: [],
    tail: '',
    comesAgain: false,
  }
}

/** In words, too, it is the error as JSON, which agrees with the data beside it. */
function refused(error: AdcpError, envelope: Envelope): AnswerPayload {
  const json = JSON.stringify(error)
  const errors = `,"adcp_error":${json},"errors":[${json}]`
  return { ...failing(error.message, errors, () => `{"adcp_error":${json}}`, envelope), error }
}

function failed({ message, fields }: Failed, envelope: Envelope): AnswerPayload {
  return failing(message, members(fields), () => JSON.stringify({ message, ...fields }), envelope)
}

/** The payload of an answer; a refusal carries its error twice, as docs/protocol.md#envelope wants it. */
export function payloadOf(answer: Answer, envelope: Envelope): AnswerPayload {
  if (answer.kind === 'answer') return answered(answer, envelope)
  return answer.kind === 'failed' ? failed(answer, envelope) : refused(answer.error, envelope)
}
