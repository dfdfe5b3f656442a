/**
 * Reads the body of an answer into memory, with a cap on *decoded* bytes: under a cap on the bytes of the wire, a small
 * compressed body could still fill the memory (docs/protocol.md#provider-files). Each answer has its own bound, but thousands
 * of them at once would still fill the memory, so the bytes of all that are being read are counted. Beyond the common bound the
 * largest answer of one registrable domain is given up: the domain with most bytes under way. Domains and not hosts, because
 * the owner of a domain can have any number of hosts.
 */
import type { Socket } from 'node:net'
import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { getDomain } from 'tldts'
import { createFairGrowth, type Growth } from '../process/fair-bytes.js'
import { createGathering, giveBack, lend } from '../process/memory.js'
import { nextOwnPortion, nextPortion } from '../process/portion-turns.js'
import { remembered } from '../process/remembered.js'

/** The default bound (docs/configuration.md). */
export const UNDER_WAY_BYTES = 512 * 1024 ** 2

const NOTHING = new Uint8Array(0)
// After a reader has enough, an answer gets this much time to end by itself, so that its connection can be used again.
const DRAIN_MS = 100
/**
 * Every chunk costs microseconds, however small it is. A body of this many chunks that are this small on average is
 * treated as an attack.
 */
const MOST_CRUMBS = 20_000
const CRUMB_BYTES = 64
const FIRST_READ_BYTES = 4 * 1024 // until a socket brings more at once: most bring little
const READ_BYTES = 64 * 1024 // of a socket at once, as Node reads
const PIECE_BYTES = 4 * 1024 // of what comes before a body: most header sections have less
const LENT_BYTES = 64 * 1024 // a body of this size stands in lent memory: it may be given back by who reads it
const MOST_ANNOUNCED = 512 * 1024 // a stranger's word is not believed for more memory
const PORTION_BYTES = 1024 ** 2 // copied between two turns of the event loop, in under a millisecond
const FRAMING_BYTES = 1024 ** 2 // on the wire, beyond twice what an answer may hold
const UNPACKED_BYTES = 64 * 1024 // at once: each time costs a call to a thread of Node's, whatever it brings
const TAKEN_BYTES = 8 * 1024 // by the reader of chunks at once: a few broken events may take it a microsecond a byte
const TAKING_MS = 1 // between two turns of the event loop

export type UnderWay = {
  /** Registers an answer; `giveUp` is called when it must end because all answers together are too large. */
  begin(url: URL, giveUp: () => void): Growth
  bytes(): number
  /** The number of answers that were given up. */
  givenUp(): number
}

/** The registrable one, where there is one: every answer asks for its own. */
const domainOf = remembered((hostname) => getDomain(hostname, { allowPrivateDomains: true }) ?? hostname)

/** `limit` returns the current bound in bytes, of all answers together. */
export function createUnderWay(limit: () => number): UnderWay {
  const all = createFairGrowth(limit)
  return { ...all, begin: ({ hostname }, giveUp) => all.begin(domainOf(hostname), giveUp) }
}

/**
 * How a socket is read: into memory of its own that is used again, because new memory for each read makes the collector go
 * through the whole heap (docs/decisions.md#answers-are-read-in-threads). Only a body is handed over as it lies there, because
 * its reader takes what it needs at once. A header section may come in several reads, and undici keeps views of the parts that
 * have come, so what comes before a body is copied, piece by piece. What is left unread is copied as well. No two sockets share
 * memory.
 */
export function createReads() {
  const inBody = new WeakMap<Socket, { left: number; tooMany(): void }>()
  let reading: Socket | undefined
  let again: Uint8Array | undefined

  function give(socket: Socket, bytes: Uint8Array): void {
    socket.push(bytes)
    socket.emit('readable')
    const left = socket.readableLength > 0 ? socket.read() : null
    if (left !== null) socket.unshift(Buffer.from(left))
  }

  return {
    buffer(): Uint8Array {
      const memory = again ?? Buffer.allocUnsafeSlow(FIRST_READ_BYTES)
      again = undefined
      return memory
    },
    /** Node calls it with the socket as `this`, and `buffer` right after it. */
    callback(this: Socket, count: number, memory: Uint8Array): boolean {
      reading = this
      for (let at = 0; at < count; ) {
        const body = inBody.get(this)
        const part = memory.subarray(at, body ? count : Math.min(count, at + PIECE_BYTES))
        if (body) body.left -= part.byteLength
        if (body && body.left < 0) {
          body.tooMany()
          break
        }
        give(this, body ? part : Buffer.from(part))
        at += part.byteLength
      }
      reading = undefined
      const isLarger = count === memory.byteLength && count < READ_BYTES
      again = isLarger ? Buffer.allocUnsafeSlow(READ_BYTES) : memory
      return this.readableLength < this.readableHighWaterMark
    },
    /**
     * A body begins in what is being read, of so many decoded bytes at most. `tooMany`: the wire brought far more, which were
     * nothing of it: extensions of chunks, blocks that unpack to nothing. What it returns is called when the body has ended.
     */
    bodyBegins(maxBytes: number, tooMany: () => void): () => void {
      const socket = reading
      if (!socket) return () => {}
      inBody.set(socket, { left: 2 * maxBytes + FRAMING_BYTES, tooMany })
      return () => inBody.delete(socket)
    },
  }
}

export type Reads = ReturnType<typeof createReads>

export type BodyOutcome =
  | { kind: 'body'; body: Buffer }
  | { kind: 'too_large'; message: string }
  /** It was ended because all answers together were too large. */
  | { kind: 'crowded_out' }
  | { kind: 'broken'; message: string }

const UNPACKING = { chunkSize: UNPACKED_BYTES }

const DECODERS: Record<string, () => Transform> = {
  gzip: () => createGunzip(UNPACKING),
  'x-gzip': () => createGunzip(UNPACKING),
  deflate: () => createInflate(UNPACKING),
  br: () => createBrotliDecompress(UNPACKING),
}

const portionOf = ({ isAwaited }: Pick<BodyBounds, 'isAwaited'>) =>
  isAwaited ? nextPortion() : nextOwnPortion()

/**
 * Joins the chunks into one buffer, in portions: copying tens of megabytes at once would block the thread for as many
 * milliseconds.
 */
async function joined(chunks: readonly Uint8Array[], bytes: number, bounds: BodyBounds): Promise<Buffer> {
  if (bytes < LENT_BYTES) return Buffer.concat(chunks, bytes)
  const whole = lend(bytes).subarray(0, bytes) // every byte is written below
  let at = 0
  let pauseAt = PORTION_BYTES
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
    if (at < pauseAt) continue
    await portionOf(bounds)
    pauseAt = at + PORTION_BYTES
  }
  return whole
}

export type BodyBounds = {
  maxBytes: number
  /** Its length in bytes as its server announces it. */
  length?: number | undefined
  /** Somebody waits for it; else it is put together in the turns of our own work. */
  isAwaited?: boolean | undefined
  /** Receives each chunk in place of the body, an empty one first; returns true when it has enough. */
  enough?: ((chunk: Uint8Array) => boolean) | undefined
  /** Registers this answer among all that are being read; `giveUp` ends it. */
  begin(giveUp: () => void): Growth
  /** Ends the transfer, of which no more is wanted. */
  stop(): void
  /** After `take` said that there is no room: there is. */
  goOn(): void
}

export type BodyReceiver = {
  /** Reads a chunk, whose memory the caller may use again. False when no more may come until `goOn`. */
  take(chunk: Uint8Array): boolean
  /** It is complete. */
  end(): void
  /** It ended early. */
  broke(message: string): void
  /** Settles once. */
  readonly outcome: Promise<BodyOutcome>
}

/** Collects decoded chunks. `isKept`: a chunk has memory of its own, which nobody uses again. */
function createCollector(bounds: BodyBounds, isKept: boolean): BodyReceiver {
  const { maxBytes, length = 0, enough, begin, stop } = bounds
  const gathering = createGathering()
  const isAnnounced =
    length >= LENT_BYTES && length <= Math.min(maxBytes, MOST_ANNOUNCED) && !isKept && !enough
  let whole: Buffer | undefined // of a length that was announced
  let bytes = 0
  let crumbs = 0
  let isOver = false
  let draining: NodeJS.Timeout | undefined
  let settle: (outcome: BodyOutcome | Promise<BodyOutcome>) => void = () => {}
  const outcome = new Promise<BodyOutcome>((resolve) => {
    settle = resolve
  })

  function finish(how: BodyOutcome | Promise<BodyOutcome>): void {
    if (isOver) return
    isOver = true
    reading.end()
    settle(how)
  }

  function giveUp(how: BodyOutcome): void {
    if (isOver) return
    finish(how)
    if (whole) giveBack(whole)
    stop()
  }

  const reading = begin(() => giveUp({ kind: 'crowded_out' }))

  function refusal(): string | undefined {
    if (bytes > maxBytes) return `more than ${maxBytes} bytes`
    const isCrumbled = crumbs > MOST_CRUMBS && bytes < crumbs * CRUMB_BYTES
    return isCrumbled ? `in more than ${MOST_CRUMBS} chunks of a few bytes` : undefined
  }

  function keep(chunk: Uint8Array): void {
    if (!isAnnounced) gathering.add(isKept ? chunk : Buffer.from(chunk))
    else {
      whole ??= lend(length).subarray(0, length)
      whole.set(chunk, bytes - chunk.byteLength)
    }
  }

  async function given(): Promise<BodyOutcome> {
    return {
      kind: 'body',
      body: whole?.subarray(0, bytes) ?? (await joined(gathering.chunks(), enough ? 0 : bytes, bounds)),
    }
  }

  function suffice(): void {
    finish(given())
    draining = setTimeout(stop, DRAIN_MS)
  }

  return {
    outcome,
    take(chunk) {
      if (isOver) return true
      bytes += chunk.byteLength
      crumbs += 1
      const message = refusal()
      if (message !== undefined) {
        giveUp({ kind: 'too_large', message })
        return true
      }
      if (!enough) keep(chunk)
      reading.grew(isAnnounced ? (crumbs === 1 ? length : 0) : chunk.byteLength)
      if (enough?.(chunk)) suffice()
      return true
    },
    end() {
      clearTimeout(draining)
      if (!isOver) finish(given())
    },
    broke(message) {
      clearTimeout(draining)
      if (!isOver) giveUp({ kind: 'broken', message })
    },
  }
}

/**
 * Gives the reader of `enough` its chunks in pieces, and waits for the next turn of the event loop where these take it long: how
 * much comes at once does not decide how long the thread stops. What comes after a chunk waits until it is taken.
 */
function createPortions(bounds: BodyBounds, isKept: boolean): BodyReceiver {
  const { outcome, take, end, broke } = createCollector(bounds, isKept)
  let isTaking = false
  let after: () => void = bounds.goOn

  /** Gives what is left of the chunk when time is up. */
  function taken(chunk: Uint8Array): Uint8Array {
    const until = performance.now() + TAKING_MS
    let at = 0
    do {
      take(chunk.subarray(at, at + TAKEN_BYTES))
      at += TAKEN_BYTES
    } while (at < chunk.byteLength && performance.now() < until)
    return chunk.subarray(at)
  }

  async function takeInTurns(chunk: Uint8Array): Promise<void> {
    isTaking = true
    for (let left = chunk; left.byteLength > 0; left = taken(left)) await portionOf(bounds)
    isTaking = false
    after()
  }

  function whenTaken(task: () => void): void {
    if (isTaking) after = task
    else task()
  }

  return {
    outcome,
    take(chunk) {
      const left = taken(chunk)
      if (left.byteLength === 0) return true
      void takeInTurns(isKept ? left : Buffer.from(left))
      return false
    },
    end: () => whenTaken(end),
    broke: (message) => whenTaken(() => broke(message)),
  }
}

const receiverOf = (bounds: BodyBounds, isKept: boolean): BodyReceiver =>
  (bounds.enough ? createPortions : createCollector)(bounds, isKept)

/** Decodes a body on its way to where it is collected. */
function createDecoding(decoder: Transform, bounds: BodyBounds): BodyReceiver {
  const stop = () => {
    decoder.destroy()
    bounds.stop()
  }
  const { outcome, take, end, broke } = receiverOf({ ...bounds, stop, goOn: () => decoder.resume() }, true)
  decoder.on('data', (chunk: Uint8Array) => void (take(chunk) || decoder.pause()))
  decoder.on('end', end).on('drain', bounds.goOn)
  decoder.on('error', ({ message }) => broke(message))
  return {
    outcome,
    take: (chunk) => decoder.destroyed || decoder.write(Buffer.from(chunk)),
    end: () => void decoder.end(),
    broke,
  }
}

/** Of a body that nobody wants no byte is looked at, so however it is packed is no fault of the answer. */
function createPassing({ stop }: BodyBounds): BodyReceiver {
  const draining = setTimeout(stop, DRAIN_MS)
  const over = () => clearTimeout(draining)
  const outcome = Promise.resolve<BodyOutcome>({ kind: 'body', body: Buffer.alloc(0) })
  return { outcome, take: () => true, end: over, broke: over }
}

/**
 * Reads one body: the whole of it, or an empty one when `enough` took its chunks. When the request is aborted the outcome is
 * `broken`; the code that aborted it knows the reason.
 */
export function createBodyReceiver(encoding: string, bounds: BodyBounds): BodyReceiver {
  if (bounds.enough?.(NOTHING)) return createPassing(bounds)
  const coding = encoding.trim().toLowerCase()
  if (coding === '' || coding === 'identity') return receiverOf(bounds, false)
  const decoder = DECODERS[coding]?.()
  if (decoder) return createDecoding(decoder, bounds)
  const message = `content-encoding ${encoding.slice(0, 40)} is not known`
  const refuse = async (): Promise<BodyOutcome> => ({ kind: 'broken', message })
  return { outcome: refuse().finally(bounds.stop), take: () => true, end() {}, broke() {} }
}
