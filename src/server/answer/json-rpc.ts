/**
 * JSON-RPC 2.0 for both transports: from the bytes of a body to messages, or to the error for them. An id is kept as
 * JSON text, so that it is returned exactly: a long integer would lose digits.
 *
 * What repeated bodies mean is remembered: a client that polls or walks the feed sends the same all day. A body is recognised
 * by its text, which costs less than parsing it and a depth scan. Equal questions differ in the ids of their messages
 * (JSON-RPC `id`, A2A `messageId`), so those are cut out of the text first.
 */
import { isUtf8 } from 'node:buffer'
import { LRUCache } from 'lru-cache'
import { bufferOf, elementSpans, isRecord, measure, valueSpan } from '../../adcp/json.js'
import { createSeen } from '../../process/remembered.js'

const PARSE_ERROR = -32_700
export const INVALID_MESSAGE = -32_600
export const METHOD_NOT_FOUND = -32_601
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603

const MAX_DEPTH = 64 // the deepest legal request has about ten levels; serialising recurses
// A thousand rows, the most that a task takes, of 25 values each: each value costs a microsecond or more, wherever it stands.
const MOST_VALUES = 25_000
const MAX_BATCH = 50

const MOST_LENGTH = 4_096 // of a text that is remembered
const MEMORY_BYTES = 32 * 1024 * 1024
const BYTES_A_CHARACTER = 24 // of what is parsed, at most: `{},` is an object
const SEEN_TEXTS = 2 ** 15
const BYTE_ORDER_MARK = 0xfeff
const ID = '"id":'
const MESSAGE_ID = '"messageId":'
const QUOTE = 0x22
const SPACE = 0x20

/** A value that another like it can replace without a change to anything around it. */
const VALUE = /(?:0|[1-9]\d{0,14}|"[^"\\\p{Cc}]+")(?=[,}])/uy

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

const NOT_JSON: Broken = { kind: 'broken', code: PARSE_ERROR, reason: 'The body is not JSON in UTF-8' }

/** The JSON text of an official server's response, under the caller's own id. */
export function rpcResponse(id: string, response: object): string {
  const { id: _, ...rest } = response as Record<string, unknown>
  return `{"id":${id},${JSON.stringify(rest).slice(1)}`
}

/** The JSON text of an error response. */
export function rpcError(id: string, code: number, message: string, data?: unknown): string {
  const more = data === undefined ? '' : `,"data":${JSON.stringify(data)}`
  return `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${JSON.stringify(message)}${more}}}`
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
function textOf(body: Uint8Array): string | undefined {
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
  const text = textOf(body)
  const read = text === undefined ? NOT_JSON : readValue(text, body)
  return read.kind === 'value' ? read.value : undefined
}

function readText(text: string, body: Uint8Array): RpcBody {
  const read = readValue(text, body)
  if (read.kind === 'broken') return read
  const { value } = read
  if (!Array.isArray(value)) return { kind: 'single', message: readMessage(value, () => text) }
  if (value.length === 0 || value.length > MAX_BATCH) {
    return refused(`A batch must have 1 to ${MAX_BATCH} messages`)
  }
  return { kind: 'batch', messages: readBatch(value, body) }
}

type Cut = { start: number; end: number }

/** The index after the value that starts there; -1 when nothing starts there that may be cut out. */
function endOfCut(text: string, start: number): number {
  VALUE.lastIndex = start
  return VALUE.test(text) ? VALUE.lastIndex : -1
}

/** Where the value of the first member of this name (written as a key) stands. */
function cutAt(text: string, key: string): Cut | undefined {
  const at = text.indexOf(key)
  if (at < 0) return undefined
  const start = at + key.length + (text.charCodeAt(at + key.length) === SPACE ? 1 : 0)
  const end = endOfCut(text, start)
  return end < 0 ? undefined : { start, end }
}

const isText = (text: string, start: number) => text.charCodeAt(start) === QUOTE

/** Nobody reads which name a message has, if it has one. */
function messageIdAt(text: string): Cut | undefined {
  const cut = cutAt(text, MESSAGE_ID)
  return cut && isText(text, cut.start) ? cut : undefined
}

/** What stands around the cuts, in order; and the kind of each, because a text is no number. */
type Frame = { around: readonly string[]; areTexts: readonly boolean[]; id: number }

function frameOf(text: string, id: Cut, messageId: Cut | undefined): Frame {
  const idIsText = isText(text, id.start)
  if (!messageId) {
    return { around: [text.slice(0, id.start), text.slice(id.end)], areTexts: [idIsText], id: 0 }
  }
  const [first, second] = id.start < messageId.start ? [id, messageId] : [messageId, id]
  const around = [text.slice(0, first.start), text.slice(first.end, second.start), text.slice(second.end)]
  return first === id
    ? { around, areTexts: [idIsText, true], id: 0 }
    : { around, areTexts: [true, idIsText], id: 1 }
}

/** The same for texts that differ in their cuts alone. */
function nameOf({ around, areTexts, id }: Frame): string {
  const [first = '', second = '', third] = around
  const kind = areTexts[id] ? 't' : 'n'
  return third === undefined ? `${kind} ${first}${second}` : `${kind}m ${first}${second}${third}`
}

/** The id in a text of this frame; undefined in any other. */
function idWithin(text: string, { around, areTexts, id }: Frame): string | undefined {
  let found: string | undefined
  let at = 0
  for (let cut = 0; cut < areTexts.length; cut += 1) {
    const before = around[cut] as string
    const start = at + before.length
    if (text.slice(at, start) !== before || isText(text, start) !== areTexts[cut]) return undefined
    at = endOfCut(text, start)
    if (at < 0) return undefined
    if (cut === id) found = text.slice(start, at)
  }
  return text.slice(at) === around.at(-1) ? found : undefined
}

function isCutOf(text: string, path: readonly string[], { start, end }: Cut): boolean {
  const span = valueSpan(Buffer.from(text), path)
  const begin = Buffer.byteLength(text.slice(0, start))
  return span?.[0] === begin && span[1] === begin + Buffer.byteLength(text.slice(start, end))
}

/**
 * Only requests for the wholesale feed are remembered, because they repeat. Secrets of webhooks must not be kept longer
 * than they are used, however their members are spelled.
 */
function isWorthKeeping(text: string): boolean {
  return text.includes('"wholesale"') && !text.includes('notification_config') && !text.includes('\\u')
}

/** A remembered request, under the id (JSON text) that it has this time. */
function repeated({ method, params, message, raw }: RpcRequest, id: string): RpcRequest {
  return { kind: 'request', id, method, params, message, raw, comesAgain: true }
}

/** Texts are JSON that `JSON.parse` accepted before they are remembered. */
function createBodyMemory() {
  const known = new LRUCache<string, RpcRequest>({
    maxSize: MEMORY_BYTES,
    sizeCalculation: (_request, name) => name.length * BYTES_A_CHARACTER,
  })
  const seen = createSeen(SEEN_TEXTS)
  /** Whoever polls sends what was sent last: comparing with it costs a third of looking a text up. */
  let last: { frame: Frame; request: RpcRequest } | undefined

  /** The remembered request of a text that is equal to one before, but for the cuts; with the id of this one. */
  function recall(text: string): RpcRequest | undefined {
    if (text.length > MOST_LENGTH) return undefined
    const again = last && idWithin(text, last.frame)
    if (last && again !== undefined) return repeated(last.request, again)
    const id = cutAt(text, ID)
    const frame = id && frameOf(text, id, messageIdAt(text))
    const request = frame && known.get(nameOf(frame))
    if (!request) return undefined
    last = { frame, request }
    return repeated(request, text.slice(id.start, id.end))
  }

  /**
   * Remembers what a text means when it comes for the second time; says whether it does. Whoever walks the feed asks for
   * each page once: what would be kept for it, and for its answer, would only be garbage that grows old.
   */
  function remember(text: string, request: RpcRequest): boolean {
    if (text.length > MOST_LENGTH || !isWorthKeeping(text)) return false
    const id = cutAt(text, ID)
    const messageId = messageIdAt(text)
    if (!id || !isCutOf(text, ['id'], id)) return false
    if (messageId && !isCutOf(text, ['params', 'message', 'messageId'], messageId)) return false
    const name = nameOf(frameOf(text, id, messageId))
    const isSeen = seen(name)
    if (isSeen) known.set(name, request)
    return isSeen
  }

  return { recall, remember }
}

/** Reads the messages of a request body. */
export function createBodyReader(): (body: unknown) => RpcBody {
  const memory = createBodyMemory()
  return (body) => {
    if (!(body instanceof Uint8Array)) return NOT_JSON
    const text = textOf(body)
    if (text === undefined) return NOT_JSON
    const recalled = memory.recall(text)
    if (recalled) return { kind: 'single', message: recalled }
    const read = readText(text, body)
    if (read.kind === 'single' && read.message.kind === 'request') {
      read.message.comesAgain = memory.remember(text, read.message)
    }
    return read
  }
}

export type BodyReader = ReturnType<typeof createBodyReader>
