/**
 * JSON-RPC 2.0 for both transports: from the bytes of a body to messages, or to the error for them. An id is kept as
 * JSON text, so that it is returned exactly: a long integer would lose digits.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf, elementSpans, isRecord, measure, valueSpan } from '../../adcp/json.js'

const PARSE_ERROR = -32_700
export const INVALID_MESSAGE = -32_600
export const METHOD_NOT_FOUND = -32_601
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603

const MAX_DEPTH = 64 // the deepest legal request has about ten levels; serialising recurses
// A thousand rows, the most that a task takes, of 25 values each: each value costs a microsecond or more, wherever it stands.
const MOST_VALUES = 25_000
const MAX_BATCH = 50

const BYTE_ORDER_MARK = 0xfeff

/** The codes of JSON-RPC 2.0 and of A2A, each as a closed word for the log and the metrics. */
const REASONS: Readonly<Record<number, string>> = {
  [PARSE_ERROR]: 'not_json',
  [INVALID_MESSAGE]: 'invalid_message',
  [METHOD_NOT_FOUND]: 'unknown_method',
  [INVALID_PARAMS]: 'invalid_params',
  [INTERNAL_ERROR]: 'failed',
  [-32_001]: 'task_not_found',
  [-32_002]: 'task_not_cancelable',
  [-32_003]: 'push_not_supported',
  [-32_004]: 'unsupported_operation',
  [-32_005]: 'unsupported_media_type',
  [-32_007]: 'no_extended_card',
  [-32_009]: 'unsupported_version',
}

export function reasonOfCode(code: unknown): string {
  return REASONS[Number(code)] ?? 'refused'
}

export type RpcRequest = {
  kind: 'request'
  /** JSON text. */
  id: string
  method: string
  params: unknown
  message: Record<string, unknown>
  /** JSON text of the value at a path inside the message. */
  raw: (path: readonly (string | number)[]) => string | undefined
  /**
   * The params are the same object when the request is repeated, so what is derived from them may be cached by them.
   */
  comesAgain: boolean
}

export type RpcMessage =
  | RpcRequest
  | { kind: 'notification' }
  /** An answer to something we never asked. */
  | { kind: 'response' }
  | { kind: 'invalid'; id: string; reason: string }

type Broken = { kind: 'broken'; code: number; reason: string }

export type RpcBody =
  | { kind: 'single'; message: RpcMessage }
  | { kind: 'batch'; messages: RpcMessage[] }
  | Broken

export const NOT_JSON: Broken = { kind: 'broken', code: PARSE_ERROR, reason: 'The body is not JSON in UTF-8' }

/** What the JSON text of every response begins with. `id`: JSON text of the request's. */
export const rpcOpening = (id: string) => `{"jsonrpc":"2.0","id":${id}`

/** What stands behind the id of a response, as JSON. `code`: of an error. */
export type RpcRest = { rest: string; code?: number }

/** Of what an official server answered. */
export function rpcRest({
  result,
  error,
}: {
  result?: unknown
  error?: { code: number } | undefined
}): RpcRest {
  const rest = `,${JSON.stringify(error ? { error } : { result }).slice(1)}`
  return error ? { rest, code: error.code } : { rest }
}

/** The JSON text of an error response. */
export function rpcError(id: string, code: number, message: string, data?: unknown): string {
  const more = data === undefined ? '' : `,"data":${JSON.stringify(data)}`
  return `${rpcOpening(id)},"error":{"code":${code},"message":${JSON.stringify(message)}${more}}}`
}

/**
 * The text of the value at `path` of a JSON text, as it was written: `JSON.parse` would make 1 of 1.0, and a long integer
 * loses digits.
 */
export function rawValue(text: string, path: readonly (string | number)[]): string | undefined {
  const json = Buffer.from(text)
  const span = valueSpan(json, path)
  return span && json.toString('utf8', ...span)
}

function idText(id: unknown, raw: () => string | undefined): string | undefined {
  if (typeof id === 'string') return JSON.stringify(id)
  if (typeof id !== 'number') return undefined
  return Number.isSafeInteger(id) ? String(id) : raw()
}

/** `text`: the message's own, asked for when a value is to be returned as it was written. */
function readMessage(value: unknown, text: () => string): RpcMessage {
  const invalid = (id: string, reason: string): RpcMessage => ({ kind: 'invalid', id, reason })
  if (!isRecord(value)) return invalid('null', 'A message must be an object')
  const message = value
  const raw = (path: readonly (string | number)[]) => rawValue(text(), path)
  const id = idText(message.id, () => raw(['id']))
  if (message.jsonrpc !== '2.0') return invalid(id ?? 'null', 'jsonrpc must be "2.0"')
  if (typeof message.method !== 'string') {
    return 'result' in message || 'error' in message
      ? { kind: 'response' }
      : invalid(id ?? 'null', 'method must be a string')
  }
  if (message.id === undefined) return { kind: 'notification' }
  if (id === undefined) return invalid('null', 'id must be a string or a number')
  const { method, params } = message
  if (params !== undefined && (typeof params !== 'object' || params === null)) {
    return invalid(id, 'params must be an object')
  }
  return { kind: 'request', id, method, params, message, raw, comesAgain: false }
}

/** Where the messages of a batch stand is looked for once: to go through all of it for each would take their number of times. */
function readBatch(batch: readonly unknown[], body: Uint8Array): RpcMessage[] {
  let spans: ReturnType<typeof elementSpans> | undefined
  const textAt = (at: number) => {
    spans ??= elementSpans(body, [])
    return bufferOf(body).toString('utf8', ...(spans[at] ?? [0, 0]))
  }
  return batch.map((item, at) => readMessage(item, () => textAt(at)))
}

/** Undefined for what is not in UTF-8. */
export function utf8Text(body: Uint8Array): string | undefined {
  if (!isUtf8(body)) return undefined
  const text = bufferOf(body).toString()
  return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
}

const refused = (reason: string): Broken => ({ kind: 'broken', code: INVALID_MESSAGE, reason })

function readValue(text: string, body: Uint8Array): { kind: 'value'; value: unknown } | Broken {
  const { depth, values } = measure(body)
  if (depth > MAX_DEPTH) return refused(`The body is nested more than ${MAX_DEPTH} deep`)
  if (values > MOST_VALUES)
    return refused(`The body holds more than ${MOST_VALUES} values: send fewer at a time`)
  try {
    return { kind: 'value', value: JSON.parse(text) }
  } catch {
    return NOT_JSON // JSON-RPC has one error for everything malformed
  }
}

/** What a body holds, read at the door as the transports read it behind it; undefined for what they refuse. */
export function valueOfBody(body: Uint8Array): unknown {
  const text = utf8Text(body)
  const read = text === undefined ? NOT_JSON : readValue(text, body)
  return read.kind === 'value' ? read.value : undefined
}

/** The messages of a body, by its text. */
export function readRpcBody(text: string, body: Uint8Array): RpcBody {
  const read = readValue(text, body)
  if (read.kind === 'broken') return read
  const { value } = read
  if (!Array.isArray(value)) return { kind: 'single', message: readMessage(value, () => text) }
  if (value.length === 0 || value.length > MAX_BATCH) {
    return refused(`A batch must have 1 to ${MAX_BATCH} messages`)
  }
  return { kind: 'batch', messages: readBatch(value, body) }
}
