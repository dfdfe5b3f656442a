/**
 * The order of a kept answer, with how well each of its signals fits; also as bytes, from which other processes make its
 * further pages.
 */
import { WORDS } from '../../snapshot/keys.js'
import type { Snapshot } from '../../snapshot/snapshot.js'

/** How well the signals of an answer match its question, and by which words, so that a buyer can check it. */
export type Relevance = {
  /** What was looked for, by the words of the question. */
  labels: readonly string[]
  /** By hit: how well it fits against the best, 0 to 1, and one bit for each label that it has. */
  of: ReadonlyMap<number, { fit: number; match: number }>
  /** How many hits share something with the question, or were named in it: the first page shows only these. */
  first: number
}

/** The same for the pages of an answer, by index in its order. */
type KeptRelevance = {
  labels: readonly string[]
  fits: Float32Array
  matches: Uint32Array
  first: number
}

/** One signal's, as an answer shows it. */
export type ShownRelevance = {
  signal_agent_segment_id: string
  /** 0 to 1, compared with the best of the answer; absent for signals that only an upstream or a reference brought. */
  fit?: number
  has: string[]
  lacks: string[]
}

const HUNDREDTHS = 100

/** In the order of the answer. */
export function keepRelevance({ labels, of, first }: Relevance, hits: readonly number[]): KeptRelevance {
  return {
    ...{ labels, first },
    fits: Float32Array.from(hits, (hit) => of.get(hit)?.fit ?? 0),
    matches: Uint32Array.from(hits, (hit) => of.get(hit)?.match ?? 0),
  }
}

/** The signal at this index of the order; `handle` names it. */
export function shownRelevance(
  { labels, fits, matches }: KeptRelevance,
  place: number,
  handle: string,
): ShownRelevance {
  const fit = fits[place] as number
  const has = labels.filter((_, at) => ((matches[place] as number) >>> at) & 1)
  return {
    signal_agent_segment_id: handle,
    ...(fit > 0 && { fit: Math.max(1, Math.round(fit * HUNDREDTHS)) / HUNDREDTHS }),
    has,
    lacks: labels.filter((label) => !has.includes(label)),
  }
}

export type KeptAnswer = {
  /** Four words per signal, in the order of the answer. */
  keys: Uint32Array
  /** What upstreams found and the feed lacks; absent where that is no longer kept, or was kept by another process. */
  extra?: Snapshot
  /** The handles of the signals that the feed lacks. */
  beside: readonly string[]
  /** How well each fits; absent where nothing was asked in words. */
  relevance?: KeptRelevance
}

const FORM = 1
const HEADER_LENGTH = 4
const WORD_BYTES = 4

type Header = {
  form: number
  count: number
  beside: readonly string[]
  relevance?: { labels: readonly string[]; first: number }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array | Float32Array) =>
  new Uint8Array(buffer, byteOffset, byteLength)

/** The bytes of an answer, without `extra`: a reader finds those signals by their handles. */
export function orderOf({ keys, beside, relevance }: KeptAnswer): Uint8Array {
  const about: Header = {
    ...{ form: FORM, count: keys.length / WORDS, beside },
    ...(relevance && { relevance: { labels: relevance.labels, first: relevance.first } }),
  }
  const header = Buffer.from(JSON.stringify(about))
  const length = Buffer.alloc(HEADER_LENGTH)
  length.writeUInt32LE(header.byteLength)
  const numbers = [keys, ...(relevance ? [relevance.fits, relevance.matches] : [])]
  return Buffer.concat([length, header, ...numbers.map(bytesOf)])
}

/** The answer of such bytes; undefined for bytes of a release with another form. */
export function orderFrom(bytes: Uint8Array): KeptAnswer | undefined {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const start = HEADER_LENGTH + whole.readUInt32LE()
  const { form, count, beside, relevance } = JSON.parse(
    whole.toString('utf8', HEADER_LENGTH, start),
  ) as Header
  if (form !== FORM) return undefined
  let at = start
  const numbers = (length: number): ArrayBuffer => {
    const from = at
    at += length * WORD_BYTES
    return new Uint8Array(whole.subarray(from, at)).buffer
  }
  const keys = new Uint32Array(numbers(count * WORDS))
  if (!relevance) return { keys, beside }
  const fits = new Float32Array(numbers(count))
  return { keys, beside, relevance: { ...relevance, fits, matches: new Uint32Array(numbers(count)) } }
}
