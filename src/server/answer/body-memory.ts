/**
 * What bodies said that come again: whoever polls the feed or walks it asks the same all day. Such a body is known by its
 * text, which costs two short searches instead of decoding, parsing and a depth scan. Questions that are the same
 * differ in the names of their messages (JSON-RPC `id`, A2A `messageId`), so those are cut out of the text first.
 */
import { LRUCache } from 'lru-cache'
import { valueSpan } from '../../adcp/raw-json.js'
import type { RpcRequest } from './json-rpc.js'

const MOST_LENGTH = 4_096
const MEMORY_BYTES = 32 * 1024 * 1024
const BYTES_A_CHARACTER = 24 // of what is parsed, at most: `{},` is an object
const ID = '"id":'
const MESSAGE_ID = '"messageId":'
const QUOTE = 0x22
const SPACE = 0x20

/** A value that another like it can replace without a change to anything around it. */
const VALUE = /(?:0|[1-9]\d{0,14}|"[^"\\\p{Cc}]+")(?=[,}])/uy

type Cut = { start: number; end: number }

/** Where the value of the first member of this name (written as a key) stands. */
function cutAt(text: string, key: string): Cut | undefined {
  const at = text.indexOf(key)
  if (at < 0) return undefined
  const start = at + key.length + (text.charCodeAt(at + key.length) === SPACE ? 1 : 0)
  VALUE.lastIndex = start
  return VALUE.test(text) ? { start, end: VALUE.lastIndex } : undefined
}

const isText = (text: string, { start }: Cut) => text.charCodeAt(start) === QUOTE

/** Nobody reads which name a message has, if it has one. */
function messageIdAt(text: string): Cut | undefined {
  const cut = cutAt(text, MESSAGE_ID)
  return cut && isText(text, cut) ? cut : undefined
}

/** The same for texts that differ in these values alone. What was cut out is told in front: a text is no number. */
function nameOf(text: string, id: Cut, messageId: Cut | undefined): string {
  const kind = isText(text, id) ? 't' : 'n'
  if (!messageId) return `${kind} ${text.slice(0, id.start)}${text.slice(id.end)}`
  const [first, second] = id.start < messageId.start ? [id, messageId] : [messageId, id]
  const left = text.slice(0, first.start) + text.slice(first.end, second.start) + text.slice(second.end)
  return `${kind}m ${left}`
}

function isCutOf(text: string, path: readonly string[], { start, end }: Cut): boolean {
  const span = valueSpan(text, path)
  return span?.start === start && span.end === end
}

/**
 * The wholesale feed is what is asked for again and again. Secrets of webhooks are not kept longer than they are used, however
 * their members are spelled.
 */
function isWorthKeeping(text: string): boolean {
  return text.includes('"wholesale"') && !text.includes('notification_config') && !text.includes('\\u')
}

export function createBodyMemory() {
  const known = new LRUCache<string, RpcRequest>({
    maxSize: MEMORY_BYTES,
    sizeCalculation: (_request, name) => name.length * BYTES_A_CHARACTER,
  })

  /** The request that this text is, when one like it is remembered. */
  function recall(text: string): RpcRequest | undefined {
    const id = text.length <= MOST_LENGTH ? cutAt(text, ID) : undefined
    const found = id && known.get(nameOf(text, id, messageIdAt(text)))
    if (!found) return undefined
    const { method, params, message, raw } = found
    return {
      kind: 'request',
      id: text.slice(id.start, id.end),
      method,
      params,
      message,
      raw,
      comesAgain: true,
    }
  }

  /** Remembers what a text said, if it is likely to come again; then `comesAgain` of the request is set. */
  function remember(text: string, request: RpcRequest): void {
    if (text.length > MOST_LENGTH || !isWorthKeeping(text)) return
    const id = cutAt(text, ID)
    const messageId = messageIdAt(text)
    if (!id || !isCutOf(text, ['id'], id)) return
    if (messageId && !isCutOf(text, ['params', 'message', 'messageId'], messageId)) return
    request.comesAgain = true
    known.set(nameOf(text, id, messageId), request)
  }

  return { recall, remember }
}
