/**
 * Takes messages from server-sent events (HTML standard, "Server-sent events"): from the stream that answered and, when it broke
 * off, from the streams that resume it, each byte once, wherever lines and chunks break.
 */
import { createGathering, type Gathering } from '../../process/memory.js'

const USABLE_ID = /^[\x21-\x7e]{1,1024}$/ // it is copied into a header
const MAX_EVENTS = 10_000
const MAX_LINES = 100_000 // per event; each line costs more memory than its bytes
const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const SPACE = 0x20
const MARK = Buffer.from('\ufeff')
const EMPTY = Buffer.alloc(0)
const LINE_BREAK = Buffer.from('\n')

/** `last`: nothing after it matters. */
export type MessageKind = 'other' | 'candidate' | 'last'

export type EventStream = {
  /** A stream begins. Returns the reader of its chunks, which says when no more is wanted. */
  begin(): (chunk: Uint8Array) => boolean
  /** The stream has ended. Returns the messages that may be the response, from all streams. */
  end(): readonly Uint8Array[]
  /** The id of the event after which to resume; undefined when the stream cannot be resumed. */
  lastEventId(): string | undefined
  /** The wait that the server asked for, ms. */
  retryMs(): number | undefined
  /** Of all streams so far. */
  bytes(): number
}

/** Whether an answer with these headers is a stream of events. */
export function isEventStream(headers: Record<string, string>): boolean {
  return headers['content-type']?.includes('text/event-stream') ?? false
}

/**
 * Splits chunks into lines that end in CR, LF or both, and passes each complete line on. `isOwn`: the line has its own
 * memory, because it was joined from several chunks.
 */
function createLines(onLine: (line: Buffer, isOwn: boolean) => void) {
  let begun: Gathering | undefined // of a line that is not complete yet
  let afterCr = false

  function feed(chunk: Buffer): void {
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) continue
      if (byte === LF && afterCr && at === from && !begun) from = at + 1
      else {
        const rest = at === from ? EMPTY : chunk.subarray(from, at)
        if (begun) {
          begun.add(rest) // joined at once
          onLine(Buffer.concat(begun.chunks()), true)
        } else onLine(rest, false)
        begun = undefined
        from = at + 1
      }
      afterCr = byte === CR
    }
    if (from < chunk.length) {
      begun ??= createGathering()
      begun.add(Buffer.from(chunk.subarray(from)))
      afterCr = false
    }
  }

  return { feed }
}

/** The field's name and value; a comment has an empty name. */
function fieldOf(line: Buffer): { name: string; value: Buffer } {
  const colon = line.indexOf(COLON)
  if (colon === -1) return { name: line.toString('latin1', 0, 16), value: EMPTY }
  const from = line[colon + 1] === SPACE ? colon + 2 : colon + 1
  return { name: line.toString('latin1', 0, Math.min(colon, 16)), value: line.subarray(from) }
}

function joined(lines: readonly Buffer[]): Buffer {
  const [first] = lines
  if (first && lines.length === 1) return first
  return Buffer.concat(lines.flatMap((line, at) => (at === 0 ? [line] : [LINE_BREAK, line])))
}

/** `kindOf` tells whether a message may be the awaited response. */
export function createEventStream(kindOf: (message: Buffer) => MessageKind): EventStream {
  const found: Buffer[] = []
  let isOver = false
  let events = 0
  let bytes = 0
  let lastEventId: string | undefined
  let retryMs: number | undefined
  let finish = () => {}

  function begin() {
    let data: Buffer[] = []
    let id: string | undefined
    let isWhole = true
    let isFirst = true

    function dispatch(): void {
      if (isWhole && id !== undefined) lastEventId = USABLE_ID.test(id) ? id : undefined
      id = undefined
      if (data.length === 0) return
      const message = joined(data)
      data = []
      const kind = kindOf(message)
      if (kind !== 'other') found.push(message)
      events += 1
      if (kind === 'last' || events === MAX_EVENTS) isOver = true
    }

    function take(raw: Buffer, isOwn: boolean): void {
      if (isOver) return
      const line = isFirst && raw.indexOf(MARK) === 0 ? raw.subarray(MARK.length) : raw
      isFirst = false
      if (line.length === 0) {
        dispatch()
        return
      }
      const { name, value } = fieldOf(line)
      if (name === 'data') {
        data.push(isOwn ? value : Buffer.from(value))
        if (data.length === MAX_LINES) isOver = true
      } else if (name === 'id') id = value.toString()
      else if (name === 'retry' && /^\d{1,9}$/.test(value.toString('latin1', 0, 10))) {
        retryMs = Number(value.toString())
      }
    }

    const lines = createLines(take)
    finish = () => {
      isWhole = false // half an event may hold a whole response, but a stream is never resumed after it
      lines.feed(Buffer.from('\n\n'))
    }
    return (chunk: Uint8Array) => {
      bytes += chunk.byteLength
      lines.feed(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
      return isOver
    }
  }

  return {
    begin,
    /** The last event may lack its closing blank line. */
    end() {
      finish()
      finish = () => {}
      return found
    },
    lastEventId: () => lastEventId,
    retryMs: () => retryMs,
    bytes: () => bytes,
  }
}
