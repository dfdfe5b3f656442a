/**
 * Takes messages from server-sent events (HTML standard, "Server-sent events"): from the stream that answered and, when it broke
 * off, from the streams that resume it, each byte once, wherever lines and chunks break.
 */
const USABLE_ID = /^[\x21-\x7e]{1,1024}$/ // it is copied into a header
const MAX_EVENTS = 10_000
const MAX_NAME = 16 // longer than that of any field that is read, with a mark before it
const MAX_VALUE = 1_025 // of a field other than data: one more than an id that is used may have
const FIRST_BYTES = 4 * 1024
const MOVED_BYTES = 1024 * 1024 // takes less than a millisecond
const LOOKED_BYTES = 4 * 1024 // at once: a search begins slowly, and a line may have one byte
const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const SPACE = 0x20
const MARK = Buffer.from('\ufeff')
const LINE_BREAK = Buffer.from('\n')

/** `last`: nothing after it matters. */
export type MessageKind = 'other' | 'candidate' | 'last'

export type EventStream = {
  /** A stream begins. Returns the reader of its chunks, which says when no more is wanted. */
  begin(): (chunk: Uint8Array) => boolean
  /** The stream has ended. Returns the messages that may be the response, from all streams; each has its memory to itself. */
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
 * Splits chunks into lines that end in CR, LF or both, and passes on their parts as they come, and the end of each. A part is not
 * empty, and lies in the memory of its chunk.
 */
function createLines(onPart: (part: Buffer) => void, onEnd: () => void) {
  let afterCr = false

  return function feed(chunk: Buffer): void {
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) {
        afterCr = false
        continue
      }
      if (at > from) onPart(chunk.subarray(from, at))
      from = at + 1
      if (byte === CR || !afterCr) onEnd()
      afterCr = byte === CR
    }
    if (from < chunk.length) onPart(chunk.subarray(from))
  }
}

/**
 * The first bytes of which more come, at most so many. They are copied as they come: to join them in the end would stop the thread,
 * and so would moving megabytes. So memory that was moved a few times grows where it is from then on, in addresses that are kept
 * free for it: a system gives a process only so many of such places, which is why small bytes take none.
 */
function createGrowing(maxBytes: number) {
  let memory: Buffer = Buffer.allocUnsafeSlow(Math.min(FIRST_BYTES, maxBytes))
  let length = 0

  function larger(size: number): Buffer {
    if (size <= MOVED_BYTES) return Buffer.allocUnsafeSlow(size)
    return Buffer.from(new ArrayBuffer(size, { maxByteLength: maxBytes }), 0, size)
  }

  function grow(needed: number): void {
    const size = Math.min(maxBytes, Math.max(2 * memory.byteLength, needed))
    const { buffer } = memory
    if (buffer instanceof ArrayBuffer && buffer.resizable) {
      buffer.resize(size)
      memory = Buffer.from(buffer, 0, size)
      return
    }
    const before = memory
    memory = larger(size)
    memory.set(before.subarray(0, length))
  }

  return {
    add(bytes: Uint8Array): void {
      const wanted = bytes.subarray(0, maxBytes - length)
      const needed = length + wanted.byteLength
      if (needed > memory.byteLength) grow(needed)
      memory.set(wanted, length)
      length = needed
    },
    bytes: (): Buffer => memory.subarray(0, length),
    isEmpty: () => length === 0,
    /** Its memory is used again. */
    clear(): void {
      length = 0
    },
  }
}

/** Tells which of the words stand in bytes that grow. It looks at what has come since, where that is enough. */
function createSightings(words: readonly string[]) {
  const overlap = Math.max(0, ...words.map(({ length }) => length - 1))
  const seen = new Set<string>()
  let looked = 0
  return {
    look(bytes: Buffer, atLeast = 0): void {
      if (bytes.byteLength - looked < atLeast) return
      const fresh = bytes.subarray(Math.max(0, looked - overlap))
      for (const word of words) if (!seen.has(word) && fresh.includes(word)) seen.add(word)
      looked = bytes.byteLength
    },
    holds: (word: string) => seen.has(word),
    clear(): void {
      seen.clear()
      looked = 0
    },
  }
}

function copied(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.byteLength)
  copy.set(bytes)
  return copy
}

/**
 * Of a message at most `maxBytes` are kept. `kindOf` tells whether it may be the awaited response, also by which of the `words` it
 * holds. These are looked for as its parts come: to go through a large message when it ends would stop the thread.
 */
export function createEventStream(
  maxBytes: number,
  kindOf: (message: Buffer, holds: (word: string) => boolean) => MessageKind,
  words: readonly string[] = [],
): EventStream {
  const found: Buffer[] = []
  let isOver = false
  let events = 0
  let bytes = 0
  let lastEventId: string | undefined
  let retryMs: number | undefined
  let finish = () => {}
  const data = createGrowing(maxBytes)

  function begin() {
    const head = createGrowing(MAX_NAME) // of the line: its name
    const value = createGrowing(MAX_VALUE) // of another field than data
    const sightings = createSightings(words)
    let hasData = false
    let name: string | undefined // known from the colon on
    let isAtValue = false // at its first byte
    let id: string | undefined
    let isWhole = true
    let isFirst = true

    function dispatch(): void {
      if (isWhole && id !== undefined) lastEventId = USABLE_ID.test(id) ? id : undefined
      id = undefined
      if (!hasData) return
      const message = data.bytes()
      sightings.look(message)
      const kind = kindOf(message, sightings.holds)
      sightings.clear()
      if (kind === 'last') found.push(message)
      else if (kind === 'candidate') found.push(copied(message))
      data.clear()
      hasData = false
      events += 1
      if (kind === 'last' || events === MAX_EVENTS) isOver = true
    }

    function nameIn(bytes: Buffer): string {
      const isMarked = isFirst && bytes.indexOf(MARK) === 0
      return bytes.toString('latin1', isMarked ? MARK.length : 0)
    }

    function nameEnds(): string {
      const text = head.isEmpty() ? '' : nameIn(head.bytes())
      isFirst = false
      head.clear()
      value.clear()
      if (text === 'data') {
        if (hasData) data.add(LINE_BREAK)
        hasData = true
      }
      return text
    }

    function takeValue(part: Buffer): void {
      const rest = isAtValue && part[0] === SPACE ? part.subarray(1) : part
      isAtValue = false
      if (name === 'data') {
        data.add(rest)
        sightings.look(data.bytes(), LOOKED_BYTES)
      } else value.add(rest)
    }

    function takePart(part: Buffer): void {
      if (isOver) return
      if (name !== undefined) {
        takeValue(part)
        return
      }
      const colon = part.indexOf(COLON)
      const end = colon === -1 ? part.length : colon
      head.add(part.subarray(0, end))
      if (colon === -1) return
      name = nameEnds()
      isAtValue = true
      if (colon + 1 < part.length) takeValue(part.subarray(colon + 1))
    }

    function takeEnd(): void {
      if (isOver) return
      const isBlank = name === undefined
      const field = name ?? nameEnds()
      name = undefined
      if (isBlank && field === '') dispatch()
      else if (field === 'id') id = value.bytes().toString()
      else if (field === 'retry' && /^\d{1,9}$/.test(value.bytes().toString('latin1'))) {
        retryMs = Number(value.bytes().toString())
      }
    }

    const feed = createLines(takePart, takeEnd)
    finish = () => {
      isWhole = false // half an event may hold a whole response, but a stream is never resumed after it
      feed(Buffer.from('\n\n'))
    }
    return (chunk: Uint8Array) => {
      bytes += chunk.byteLength
      feed(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
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
