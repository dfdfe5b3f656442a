/**
 * JSON-RPC 2.0 for both transports: from the bytes of a body to messages, or to the error for them. An id is kept as
 * JSON text, so that it is returned exactly: a long integer would lose digits.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf, measure } from '../../adcp/json.js'
import { createBodyMemory } from './body-memory.js'
import { rawValue } from './raw-json.js'

const MAX_DEPTH = 64 // the deepest legal request has about ten levels; serialising recurses
const MAX_BATCH = 50

const PARSE_ERROR = -32_700
export const INVALID_MESSAGE = -32_600
export const METHOD_NOT_FOUND = -32_601
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603

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

export type RpcBody =
  | { kind: 'single'; message: RpcMessage }
  | { kind: 'batch'; messages: RpcMessage[] }
  | { kind: 'broken'; code: number; reason: string }

const BYTE_ORDER_MARK = 0xfeff
const NOT_JSON: RpcBody = { kind: 'broken', code: PARSE_ERROR, reason: 'The body is not JSON in UTF-8' }

function idText(id: unknown, raw: () => string | undefined): string | undefined {
  if (typeof id === 'string') return JSON.stringify(id)
  if (typeof id !== 'number') return undefined
  return Number.isSafeInteger(id) ? String(id) : raw()
}

function readMessage(value: unknown, text: string, path: readonly (string | number)[]): RpcMessage {
  const invalid = (id: string, reason: string): RpcMessage => ({ kind: 'invalid', id, reason })
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return invalid('null', 'A message must be an object')
  }
  const message = value as Record<string, unknown>
  const raw = (inner: readonly (string | number)[]) => rawValue(text, [...path, ...inner])
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

/** Undefined for what is not in UTF-8. */
function textOf(body: Uint8Array): string | undefined {
  if (!isUtf8(body)) return undefined
  const text = bufferOf(body).toString()
  return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
}

function readText(text: string, body: Uint8Array): RpcBody {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return NOT_JSON // JSON-RPC has one error for everything malformed
  }
  if (measure(body).depth > MAX_DEPTH) {
    return { kind: 'broken', code: INVALID_MESSAGE, reason: `The body is nested more than ${MAX_DEPTH} deep` }
  }
  if (!Array.isArray(value)) return { kind: 'single', message: readMessage(value, text, []) }
  if (value.length === 0 || value.length > MAX_BATCH) {
    const reason = `A batch must have 1 to ${MAX_BATCH} messages`
    return { kind: 'broken', code: INVALID_MESSAGE, reason }
  }
  return { kind: 'batch', messages: value.map((item, at) => readMessage(item, text, [at])) }
}

/** A remembered request, under the id that it has this time. */
function again({ method, params, message, raw }: RpcRequest, id: string): RpcRequest {
  return { kind: 'request', id, method, params, message, raw, comesAgain: true }
}

/** Reads the messages of a request body. */
export function createBodyReader(): (body: unknown) => RpcBody {
  const memory = createBodyMemory<RpcRequest>()
  return (body) => {
    if (!(body instanceof Uint8Array)) return NOT_JSON
    const text = textOf(body)
    if (text === undefined) return NOT_JSON
    const recalled = memory.recall(text)
    if (recalled) return { kind: 'single', message: again(recalled.meaning, recalled.id) }
    const read = readText(text, body)
    if (read.kind === 'single' && read.message.kind === 'request') {
      read.message.comesAgain = memory.remember(text, read.message)
    }
    return read
  }
}

export type BodyReader = ReturnType<typeof createBodyReader>

/** The JSON text of an error response. */
export function rpcError(id: string, code: number, message: string, data?: unknown): string {
  const more = data === undefined ? '' : `,"data":${JSON.stringify(data)}`
  return `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${JSON.stringify(message)}${more}}}`
}
