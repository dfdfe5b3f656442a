/**
 * From the bytes of a transport's messages to an AdCP answer or error: the JSON-RPC response to one request, and in it the
 * payload, in every shape that agents were seen to use (docs/protocol.md#envelope, #mcp, #how-agents-differ). It may be carried
 * by an MCP tool result, an A2A task or an A2A message, and fail by `adcp_error`, by `errors[]` with a failed status, or as
 * plain text. Its rows are read. Pure, so a thread can do it.
 */
import { failuresAmong } from '../../adcp/answer.js'
import { boundedText, isRecord, measure, scalarText } from '../../adcp/json.js'
import { redactedValue } from '../../adcp/redaction.js'
import { answerJobs } from '../../process/thread-pool.js'
import { type Directory, readDirectory } from '../rows/directory.js'
import { ROW_BYTES } from '../rows/listing.js'
import { NO_ROWS, type ReadRows, type RowBounds, readRows } from '../rows/read-rows.js'
import { readListing } from '../rows/registry-records.js'
import type { Quirk } from '../rows/slice.js'
import { type AgentError, type AgentOutcome, callFailed, namesTask, type Payload } from './agent.js'
import { type Card, readCard } from './card.js'
import { isCut, type Skimmed, skim } from './skim.js'
import { type ListedTool, readToolList } from './tool-list.js'

const MAX_MESSAGE = 500
const MAX_CODE = 64
const MAX_VERSION = 32
const MAX_BESIDE_ROWS = 512 * 1024 // characters of JSON
const MAX_BESIDE_VALUES = 20_000 // what is handed over is built anew, and objects cost most of it
const MAX_DETAILS = 8_192 // characters of JSON
const MAX_RETRY_AFTER_S = 24 * 60 * 60
/** Members of an answer that hold words which are quoted or stored: about what went wrong, and of capabilities. */
const WORDS = [
  ...['adcp_error', 'errors', 'error', 'message'],
  ...['adcp', 'supported_protocols', 'signals', 'identity', 'request_signing', 'wholesale_feed_webhooks'],
]
const FAILED = new Set(['failed', 'rejected', 'canceled', 'auth-required', 'input-required'])
const RECOVERIES = ['correctable', 'transient', 'terminal'] as const
const PENDING = /^(TASK_STATE_)?(SUBMITTED|WORKING)$/i
const FAILED_STATE =
  /^(TASK_STATE_)?(FAILED|REJECTED|CANCELED|CANCELLED|AUTH[-_]REQUIRED|INPUT[-_]REQUIRED)$/i

/** What a result is read as. `mcp` and `a2a`: the AdCP answer inside the transport's wrapping. */
export type AnswerForm = 'handshake' | 'tools' | 'mcp' | 'a2a'

export type ReadingJob = {
  /** The messages that may hold the response, in the order of arrival. */
  messages: readonly Uint8Array[]
  /** The id of the request. */
  id: number
  as: AnswerForm
  bounds: RowBounds
}

export type ReadAnswer =
  /** `version`: of the protocol, where it names one. */
  | { kind: 'handshake'; version?: string }
  | { kind: 'tools'; tools: readonly ListedTool[] | undefined }
  /** `pending`: the A2A task that is not finished yet. */
  | { kind: 'answer'; outcome: AgentOutcome; pending?: string }
  | { kind: 'rpc_error'; code: number; message: string }
  /** It exceeds a bound. */
  | { kind: 'too_large'; message: string }
  /** It was not read: others wait to be, and there is no memory or thread for more. */
  | { kind: 'no_room'; message: string }
  /** No message is the response. */
  | { kind: 'none' }

/**
 * What a transport's envelope holds: the payload or a text, and whether the envelope reports a failure. `rows`: of a
 * payload that came as text, after its array of signals was cut out.
 */
type UnwrappedAnswer = {
  payload?: Payload
  /** The payload was wrapped by a framework (`unwrapped`). */
  isWrapped?: boolean
  rows?: readonly Uint8Array[]
  text?: string
  failed: boolean
}

/** Frameworks wrap a function's result under a key of theirs: `result`, or `response` next to the function's name. */
function unwrapped(payload: Record<string, unknown>): Record<string, unknown> {
  const { id: _, name: __, ...given } = payload
  const [inner, ...others] = Object.entries(given)
  if (!inner || others.length > 0 || !isRecord(inner[1])) return payload
  return inner[0] === 'result' || inner[0] === 'response' ? unwrapped(inner[1]) : payload
}

function payloadIn(given: Record<string, unknown>): { payload: Payload; isWrapped: boolean } {
  const payload = unwrapped(given)
  return { payload, isWrapped: payload !== given }
}

/** An agent's error, its texts cut to a bound. */
export function agentError(code: string, message: string): AgentError {
  return { code: code.slice(0, MAX_CODE), message: message.slice(0, MAX_MESSAGE) }
}

function isSmall(details: unknown): details is Record<string, unknown> {
  return isRecord(details) && JSON.stringify(details).length <= MAX_DETAILS
}

function readError(raw: Record<string, unknown>): AgentError {
  const seconds = Number(scalarText(raw.retry_after))
  const field = boundedText(raw.field, 200)
  const recovery = RECOVERIES.find((word) => word === raw.recovery)
  return {
    code: boundedText(raw.code, MAX_CODE) ?? 'UNKNOWN',
    message: boundedText(raw.message) ?? 'no message',
    ...(field && { field }),
    ...(recovery && { recovery }),
    ...(seconds > 0 && { retryAfterMs: Math.min(seconds, MAX_RETRY_AFTER_S) * 1_000 }),
    ...(isSmall(raw.details) && { details: raw.details }),
  }
}

/** The error a payload reports, wherever it reports it; undefined when it is an answer. */
function errorIn({ payload, text, failed }: UnwrappedAnswer): AgentError | undefined {
  if (isRecord(payload?.adcp_error)) return readError(payload.adcp_error)
  const reports = failed || FAILED.has(scalarText(payload?.status) ?? '')
  if (!reports) return undefined
  const [first] = failuresAmong(payload?.errors)
  if (first) return readError(first)
  if (isRecord(payload?.error)) return readError(payload.error)
  return agentError('TOOL_ERROR', boundedText(payload?.message) ?? boundedText(text) ?? 'no message')
}

/** Whether the rows that were cut out belong to the answer: they are in the payload, or in the result of a task. */
function holdsCut({ signals, result }: Payload): boolean {
  return isCut(signals) || (isRecord(result) && isCut(result.signals))
}

/** The object in a text part, with its signals cut out; undefined for a message to people. */
function objectIn(text: string): Omit<UnwrappedAnswer, 'failed'> | undefined {
  if (!/^\s*\{/.test(text)) return undefined
  let skimmed: Skimmed
  try {
    skimmed = skim(Buffer.from(text))
  } catch (error) {
    if (error instanceof RangeError) throw error
    return undefined // not JSON, so it is a message to people
  }
  const found = isRecord(skimmed.value) ? payloadIn(skimmed.value) : undefined
  if (!found || holdsCut(found.payload) || skimmed.rows.length === 0) {
    return found && { ...found, rows: skimmed.rows }
  }
  const whole = skimmed.whole()
  return isRecord(whole) ? payloadIn(whole) : undefined
}

function texts(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.filter(isRecord).flatMap((part) => (typeof part.text === 'string' ? [part.text] : []))
}

/** docs/protocol.md#mcp: `isError`, then structuredContent, then the first text that is an object; or a bare result. */
function locateMcp(message: unknown): UnwrappedAnswer | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  const failed = result.isError === true
  const written = texts(result.content)
  const text = boundedText(written[0])
  if (isRecord(result.structuredContent)) {
    return { ...payloadIn(result.structuredContent), failed, ...(text && { text }) }
  }
  for (const each of written) {
    const object = objectIn(each)
    if (object) return { ...object, failed }
  }
  if (written.length > 0) return { failed, ...(text && { text }) }
  return result.content === undefined ? { payload: result, failed } : undefined
}

/** The task or the message in a result: 1.0 wraps it, 0.3 does not. */
function bodyOf(message: unknown): Record<string, unknown> | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  if (isRecord(result.task)) return result.task
  return isRecord(result.message) ? result.message : result
}

function statusOf(body: Record<string, unknown>): { state: string; message: unknown } {
  const status = isRecord(body.status) ? body.status : {}
  return { state: typeof status.state === 'string' ? status.state : '', message: status.message }
}

function partsIn(holder: unknown): Record<string, unknown>[] {
  return isRecord(holder) && Array.isArray(holder.parts) ? holder.parts.filter(isRecord) : []
}

function lastObject(texts: readonly string[]): ReturnType<typeof objectIn> {
  for (const text of [...texts].reverse()) {
    const object = objectIn(text)
    if (object) return object
  }
  return undefined
}

/**
 * The last data part counts (docs/protocol.md#a2a): artifacts first, then the status message, then a bare message; without any data
 * part, a text that is an object.
 */
function locateA2a(message: unknown): UnwrappedAnswer | undefined {
  const body = bodyOf(message)
  if (!body) return undefined
  const { state, message: spoken } = statusOf(body)
  const artifacts = Array.isArray(body.artifacts) ? body.artifacts : []
  const parts = [...partsIn(body), ...partsIn(spoken), ...artifacts.flatMap(partsIn)]
  const written = texts(parts)
  const data = parts.map((part) => part.data).findLast(isRecord)
  const object = data ? payloadIn(data) : lastObject(written)
  const text = boundedText(written.find((each) => each !== ''))
  return { failed: FAILED_STATE.test(state), ...object, ...(text && { text }) }
}

/**
 * The id of an A2A task that is still worked on, unless it holds an answer that names a task of AdCP: that one may take days, and
 * is asked about by its own id.
 */
function pendingTask(message: unknown, outcome: AgentOutcome): string | undefined {
  const body = bodyOf(message)
  if (!body || !namesTask(body.id) || !PENDING.test(statusOf(body).state)) return undefined
  return outcome.kind === 'answer' && isHandedOver(outcome.payload) ? undefined : body.id
}

/** The outcome, marked when the task that it names is the A2A task that brought it. */
function markedOwn(message: unknown, outcome: AgentOutcome): AgentOutcome {
  const { id } = bodyOf(message) ?? {}
  const isOwn = outcome.kind !== 'failed' && typeof id === 'string' && outcome.payload?.task_id === id
  return isOwn ? { ...outcome, isOwnTask: true } : outcome
}

function isHandedOver({ status, task_id }: Payload): boolean {
  return typeof status === 'string' && PENDING.test(status) && namesTask(task_id)
}

function encoded(signals: unknown): Uint8Array[] {
  return Array.isArray(signals) ? signals.map((row) => Buffer.from(JSON.stringify(row))) : []
}

/** The payload with an empty array of signals; the rows are kept separately. */
function emptied(payload: Payload): Payload {
  if (Array.isArray(payload.signals)) return { ...payload, signals: [] }
  const { result } = payload
  const inResult = isRecord(result) && Array.isArray(result.signals)
  return inResult ? { ...payload, result: { ...result, signals: [] } } : payload
}

/**
 * What is handed over of a payload: without its rows, and without secrets in its words. The thread that serves takes it over at
 * once, so it has bounds: throws a RangeError.
 */
function handedOver(payload: Payload, { secrets }: RowBounds): Payload {
  const rest = emptied(payload)
  const text = JSON.stringify(rest)
  if (text.length > MAX_BESIDE_ROWS) {
    throw new RangeError(`more than ${MAX_BESIDE_ROWS} characters beside the rows of an answer`)
  }
  if (measure(Buffer.from(text)).values > MAX_BESIDE_VALUES) {
    throw new RangeError(`more than ${MAX_BESIDE_VALUES} values beside the rows of an answer`)
  }
  const told = WORDS.filter((name) => rest[name] !== undefined)
  return { ...rest, ...Object.fromEntries(told.map((name) => [name, redactedValue(rest[name], secrets)])) }
}

/** The payload with its signals back in place. */
export function withSignals(payload: Payload, signals: readonly unknown[]): Payload {
  if (Array.isArray(payload.signals)) return { ...payload, signals }
  const { result } = payload
  return isRecord(result) ? { ...payload, result: { ...result, signals } } : payload
}

/** The rows of a payload from which nothing was cut. */
function rowsIn({ signals, result }: Payload): Uint8Array[] {
  return encoded(signals ?? (isRecord(result) ? result.signals : undefined))
}

/** Finds the payload in the transport's message; undefined when the message has no known shape. */
type Locate = (message: unknown) => UnwrappedAnswer | undefined

/**
 * What `locate` finds in a message, with the rows that were cut out of the message; where these are not the answer's, what it finds in
 * the whole message.
 */
function located(skimmed: Skimmed, locate: Locate): UnwrappedAnswer | undefined {
  const found = locate(skimmed.value)
  if (found?.rows) return found
  if (found?.payload && holdsCut(found.payload)) return { ...found, rows: skimmed.rows }
  return skimmed.rows.length > 0 ? locate(skimmed.whole()) : found
}

/** Throws a RangeError when the answer exceeds a bound. */
function readAnswer(skimmed: Skimmed, locate: Locate, bounds: RowBounds): AgentOutcome {
  const found = located(skimmed, locate)
  if (!found) return callFailed('protocol_error', 'the answer has no shape that any dialect reads')
  const { payload, rows } = found
  const error = errorIn(found)
  if (error) return { kind: 'error', error, ...(payload && { payload: handedOver(payload, bounds) }) }
  if (!payload) return callFailed('protocol_error', 'the answer carries no object')
  const elements = rows && holdsCut(payload) ? rows : rowsIn(payload)
  // Nobody reads the message again.
  const foundIn = elements === skimmed.rows ? { memory: skimmed.message, plain: skimmed.plain } : {}
  const read: ReadRows = elements.length > 0 ? readRows(elements, bounds, foundIn) : NO_ROWS
  const quirks: Quirk[] = found.isWrapped ? [...read.quirks, 'wrapped'] : [...read.quirks]
  return { kind: 'answer', payload: handedOver(payload, bounds), rows: { ...read, quirks } }
}

function isResponse(value: unknown, id: number): value is Record<string, unknown> {
  if (!isRecord(value) || value.method !== undefined) return false
  // Some agents write the id as a text; an error that occurs before they read it has none.
  return scalarText(value.id) === String(id) || (value.id === null && value.error !== undefined)
}

/** The response to request `id`, alone or in a batch; undefined when the message is something else. */
function responseIn(message: Uint8Array, id: number, rowBytes?: number): Skimmed | undefined {
  const skimmed = skim(message, rowBytes)
  if (isResponse(skimmed.value, id)) return skimmed
  const batch = Array.isArray(skimmed.value) ? skimmed.whole() : undefined
  const response = Array.isArray(batch) ? batch.find((each) => isResponse(each, id)) : undefined
  return response && { message, value: response, rows: [], whole: () => response }
}

/** The few members of a result that are used; whoever asked takes over no other. */
function readShort(result: unknown, as: 'handshake' | 'tools', { secrets }: RowBounds): ReadAnswer {
  const { protocolVersion, tools } = isRecord(result) ? result : {}
  if (as === 'tools') return { kind: 'tools', tools: readToolList(tools, secrets) }
  const version = boundedText(protocolVersion, MAX_VERSION)
  return { kind: 'handshake', ...(version !== undefined && { version }) }
}

function understand(skimmed: Skimmed, { as, bounds }: ReadingJob): ReadAnswer {
  const message = skimmed.value as Record<string, unknown>
  if (isRecord(message.error)) {
    const { code, message: text } = message.error
    return { kind: 'rpc_error', code: Number(scalarText(code)), message: boundedText(text) ?? 'no message' }
  }
  if (as === 'handshake' || as === 'tools') return readShort(message.result, as, bounds)
  const outcome = readAnswer(skimmed, as === 'mcp' ? locateMcp : locateA2a, bounds)
  if (as === 'mcp') return { kind: 'answer', outcome }
  const pending = pendingTask(message, outcome)
  return { kind: 'answer', outcome: markedOwn(message, outcome), ...(pending !== undefined && { pending }) }
}

/** Whether the message is the response to request `id`, alone or in a batch. */
export function holdsResponse(message: Uint8Array, id: number): boolean {
  try {
    return responseIn(message, id) !== undefined
  } catch {
    return false // not JSON, or beyond a bound: it cannot be the awaited response
  }
}

/**
 * The answer in the first message that is the response. Never throws for what an agent sent. Rows may be left in the memory of
 * their message, whose other bytes are lost then.
 */
export function readMessages(job: ReadingJob): ReadAnswer {
  for (const message of job.messages) {
    try {
      const response = responseIn(message, job.id, job.bounds.rowBytes ?? ROW_BYTES)
      if (response) return understand(response, job)
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'too_large', message: error.message }
      if (!(error instanceof SyntaxError)) throw error
      // not JSON: upstreams send that sometimes
    }
  }
  return { kind: 'none' }
}

/** What a thread reads: the messages of an agent, its card, or what a registry lists, for us or for those who ask us. */
export type ReaderJob =
  | ReadingJob
  | { card: Uint8Array; secrets: readonly string[] }
  | { registry: Uint8Array; secrets: readonly string[] }
  | { directory: Uint8Array; room: number }

export type ReaderReply = ReadAnswer | Card | ReturnType<typeof readListing> | Directory

function readJob(job: ReaderJob): ReaderReply {
  if ('directory' in job) return readDirectory(job.directory, job.room)
  if ('registry' in job) return readListing(job.registry, job.secrets)
  return 'card' in job ? readCard(job.card, job.secrets) : readMessages(job)
}

/** The rows of an answer, and what was written of a listing, are in memory that goes to whoever asked, and is not copied. */
function memoryOf(read: ReaderReply): ArrayBuffer[] {
  if (read && 'written' in read) return [read.written.buffer as ArrayBuffer]
  if (read && 'ends' in read) return [read.bytes, read.ends].map(({ buffer }) => buffer as ArrayBuffer)
  const outcome = read && 'kind' in read && read.kind === 'answer' ? read.outcome : undefined
  if (outcome?.kind !== 'answer' || !outcome.rows.elements) return []
  const { bytes, ends, places } = outcome.rows
  return [...new Set([bytes, ends, places.words].map(({ buffer }) => buffer as ArrayBuffer))]
}

answerJobs(import.meta.url, readJob, memoryOf)
