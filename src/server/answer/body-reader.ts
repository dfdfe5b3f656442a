/**
 * Reads the messages of a body. What repeated bodies mean is remembered: a client that polls or walks the feed sends the same all day. A body is recognised
 * by its text, which costs less than parsing it and a depth scan. Equal questions differ in the ids of their messages
 * (JSON-RPC `id`, A2A `messageId`), so those are cut out of the text first.
 */
import { LRUCache } from 'lru-cache'
import { valueSpan } from '../../adcp/json.js'
import { createSeen } from '../../process/remembered.js'
import { NOT_JSON, type RpcBody, type RpcRequest, readRpcBody, utf8Text } from './json-rpc.js'

const MOST_LENGTH = 4_096 // of a text that is remembered
const MEMORY_BYTES = 32 * 1024 * 1024
const BYTES_A_CHARACTER = 24 // of what is parsed, at most: `{},` is an object
const SEEN_TEXTS = 2 ** 15
const ID = '"id":'
const MESSAGE_ID = '"messageId":'
const QUOTE = 0x22
const SPACE = 0x20

/** A value that another like it can replace without a change to anything around it. */
const VALUE = /(?:0|[1-9]\d{0,14}|"[^"\\\p{Cc}]+")(?=[,}])/uy

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
    const text = utf8Text(body)
    if (text === undefined) return NOT_JSON
    const recalled = memory.recall(text)
    if (recalled) return { kind: 'single', message: recalled }
    const read = readRpcBody(text, body)
    if (read.kind === 'single' && read.message.kind === 'request') {
      read.message.comesAgain = memory.remember(text, read.message)
    }
    return read
  }
}

export type BodyReader = ReturnType<typeof createBodyReader>
