/**
 * Reads the body of an answer into memory, with a cap on *decoded* bytes: under a cap on the bytes of the wire, a small
 * compressed body could still fill the memory (docs/protocol.md#provider-files). Each answer has its own bound, but thousands
 * of them at once would still fill the memory, so the bytes of all that are being read are counted. Beyond the common bound the
 * largest answer of one registrable domain is given up: the domain with most bytes under way. Domains and not hosts, because
 * the owner of a domain can have any number of hosts.
 */
import type { Readable, Transform } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { getDomain } from 'tldts'
import { lend } from '../process/lent.js'

/** The default bound (docs/configuration.md). */
export const UNDER_WAY_BYTES = 512 * 1024 ** 2

const FEW = 16 // this many small chunks of a body are kept as they came; of more, pages are made
const SMALL_BYTES = 4 * 1024
const PAGE_BYTES = 64 * 1024
// After a reader has enough, a stream gets this much time to end by itself, so that its connection can be used again.
const DRAIN_MS = 100
/**
 * Every chunk costs microseconds, however small it is. A body of this many chunks that are this small on average is
 * treated as an attack.
 */
const MOST_CRUMBS = 20_000
const CRUMB_BYTES = 64
const LENT_BYTES = 64 * 1024 // a body of this size stands in lent memory: it may be given back by who reads it
const PORTION_BYTES = 1024 ** 2 // copied between two turns of the event loop, in under a millisecond

/** One answer that is being read. */
type BodyReading = {
  grew(bytes: number): void
  /** It is complete, or was given up. */
  end(): void
}

export type UnderWay = {
  /** Registers an answer; `giveUp` is called when it must end because all answers together are too large. */
  begin(url: URL, giveUp: () => void): BodyReading
  bytes(): number
  /** The number of answers that were given up. */
  givenUp(): number
}

type Answering = { domain: string; bytes: number; giveUp(): void }

function largest<T extends { bytes: number }>(all: Iterable<T>): T | undefined {
  let most: T | undefined
  for (const one of all) if (!most || one.bytes > most.bytes) most = one
  return most
}

/** `limit` returns the current bound in bytes, of all answers together. */
export function createUnderWay(limit: () => number): UnderWay {
  const domains = new Map<string, { bytes: number; entries: Set<Answering> }>()
  let total = 0
  let givenUp = 0

  function count(entry: Answering, bytes: number): void {
    const domain = domains.get(entry.domain) ?? { bytes: 0, entries: new Set() }
    domains.set(entry.domain, domain)
    domain.entries.add(entry)
    domain.bytes += bytes
    entry.bytes += bytes
    total += bytes
  }

  function forget(entry: Answering): void {
    const domain = domains.get(entry.domain)
    if (!domain?.entries.delete(entry)) return
    total -= entry.bytes
    domain.bytes -= entry.bytes
    if (domain.entries.size === 0) domains.delete(entry.domain)
  }

  function makeRoom(): void {
    const entry = largest(largest(domains.values())?.entries ?? [])
    if (!entry) return
    givenUp += 1
    forget(entry)
    entry.giveUp()
  }

  return {
    begin({ hostname }, giveUp) {
      const domain = getDomain(hostname, { allowPrivateDomains: true }) ?? hostname
      const entry: Answering = { domain, bytes: 0, giveUp }
      count(entry, 0)
      return {
        grew(bytes) {
          count(entry, bytes)
          while (total > limit()) makeRoom()
        },
        end: () => forget(entry),
      }
    },
    bytes: () => total,
    givenUp: () => givenUp,
  }
}

export type Gathering = {
  add(chunk: Uint8Array): void
  chunks(): readonly Uint8Array[]
}

/**
 * Collects the chunks of one body. Each chunk that is kept costs a hundred bytes more than its content, and a stranger
 * may send one byte per chunk, so small chunks are copied together.
 */
export function createGathering(): Gathering {
  const chunks: Uint8Array[] = []
  let small = 0
  let page: Uint8Array | undefined // the last of `chunks`, while it has room
  let used = 0

  /** Keeps the bytes on the page as its last chunk. */
  function show(): void {
    if (page) chunks[chunks.length - 1] = page.subarray(0, used)
  }

  return {
    add(chunk) {
      if (chunk.byteLength >= SMALL_BYTES || small < FEW) {
        show()
        page = undefined
        small = chunk.byteLength < SMALL_BYTES ? small + 1 : small
        chunks.push(chunk)
        return
      }
      if (!page || used + chunk.byteLength > PAGE_BYTES) {
        show()
        page = Buffer.allocUnsafeSlow(PAGE_BYTES)
        used = 0
        chunks.push(page)
      }
      page.set(chunk, used)
      used += chunk.byteLength
    },
    chunks() {
      show()
      return chunks
    },
  }
}

export type BodyOutcome =
  | { kind: 'body'; body: Buffer }
  | { kind: 'too_large'; message: string }
  /** It was ended because all answers together were too large. */
  | { kind: 'crowded_out' }
  | { kind: 'broken'; message: string }

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}

function decoded(stream: Readable, coding: string): Readable | undefined {
  const encoding = coding.trim().toLowerCase()
  if (encoding === '' || encoding === 'identity') return stream
  const decoder = DECODERS[encoding]?.()
  if (!decoder) return undefined
  stream.on('error', (error) => decoder.destroy(error))
  decoder.on('close', () => stream.destroy())
  return stream.pipe(decoder)
}

function drainBriefly(stream: Readable): void {
  const timer = setTimeout(() => stream.destroy(), DRAIN_MS)
  stream.on('close', () => clearTimeout(timer))
  stream.on('error', () => {}) // the answer is already complete
  stream.resume()
}

/**
 * Joins the chunks into one buffer, in portions: copying tens of megabytes at once would block the thread for as many
 * milliseconds.
 */
async function joined(chunks: readonly Uint8Array[], bytes: number): Promise<Buffer> {
  if (bytes < LENT_BYTES) return Buffer.concat(chunks, bytes)
  const whole = lend(bytes).subarray(0, bytes) // every byte is written below
  let at = 0
  let pauseAt = PORTION_BYTES
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
    if (at < pauseAt) continue
    await nextTurn()
    pauseAt = at + PORTION_BYTES
  }
  return whole
}

type BodyBounds = {
  maxBytes: number
  /** Receives each chunk in place of the body; returns true when it has enough. */
  enough?: ((chunk: Uint8Array) => boolean) | undefined
  /** Registers this answer among all that are being read; `giveUp` ends it. */
  begin(giveUp: () => void): BodyReading
}

function collect(readable: Readable, { maxBytes, enough, begin }: BodyBounds): Promise<BodyOutcome> {
  const gathering = createGathering()
  let bytes = 0
  let crumbs = 0
  return new Promise((settle) => {
    const finish = (outcome: BodyOutcome | Promise<BodyOutcome>) => {
      readable.off('data', take)
      reading.end()
      settle(outcome)
    }
    const giveUp = (outcome: BodyOutcome) => {
      finish(outcome)
      readable.destroy()
    }
    const refusal = () => {
      if (bytes > maxBytes) return `more than ${maxBytes} bytes`
      const isCrumbled = crumbs > MOST_CRUMBS && bytes < crumbs * CRUMB_BYTES
      return isCrumbled ? `in more than ${MOST_CRUMBS} chunks of a few bytes` : undefined
    }
    const reading = begin(() => giveUp({ kind: 'crowded_out' }))
    let given: Promise<BodyOutcome> | undefined // the outcome is settled once: draining also ends the stream
    const give = () => {
      given ??= joined(gathering.chunks(), enough ? 0 : bytes).then((body) => ({ kind: 'body', body }))
      finish(given)
    }
    function take(chunk: Buffer) {
      bytes += chunk.byteLength
      crumbs += 1
      const message = refusal()
      if (message !== undefined) {
        giveUp({ kind: 'too_large', message })
        return
      }
      if (!enough) gathering.add(chunk)
      reading.grew(chunk.byteLength)
      if (enough?.(chunk)) {
        give()
        drainBriefly(readable)
      }
    }
    readable.on('data', take)
    readable.on('end', give)
    readable.on('error', (error) => finish({ kind: 'broken', message: error.message }))
    readable.on('close', () => finish({ kind: 'broken', message: 'the body ended early' }))
  })
}

/**
 * Gives the whole body, or an empty one when `enough` took its chunks. When the request is aborted the outcome is
 * `broken`; the code that aborted it knows the reason.
 */
export async function readBody(stream: Readable, encoding: string, bounds: BodyBounds): Promise<BodyOutcome> {
  const readable = decoded(stream, encoding)
  if (readable) return collect(readable, bounds)
  stream.on('error', () => {}).destroy() // an encoding that we did not ask for and cannot decode
  return { kind: 'broken', message: `content-encoding ${encoding.slice(0, 40)} is not known` }
}
