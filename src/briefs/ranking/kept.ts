/**
 * Answers that are kept for their further pages. An answer keeps the order of its signals, not their content: a page
 * shows each signal as the feed has it then. Bounded in number, per caller and in all, and in time.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createSignedCursors } from '../../feed/cursor.js'
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

const KEEP_MS = 15 * 60_000
const MOST = 2_000
const MOST_A_CALLER = 50
const ID_BYTES = 12

export type KeptAnswer = {
  /** Four words per signal, in the order of the answer. */
  keys: Uint32Array
  /** What upstreams found besides the feed. */
  extra?: Snapshot
  /** How well each fits; absent where nothing was asked in words. */
  relevance?: KeptRelevance
}

/** `now` in ms. Cursors are bound to a text (the caller and its question). */
export function createKept(now: () => number) {
  const cursors = createSignedCursors(randomBytes(32)) // the answers end with the process, so their cursors may, too
  const callers = new Map<string, Set<string>>()
  const answers = new LRUCache<string, KeptAnswer & { caller: string }>({
    max: MOST,
    ttl: KEEP_MS,
    perf: { now },
    ttlResolution: 0,
    dispose({ caller }, id) {
      const own = callers.get(caller)
      own?.delete(id)
      if (own?.size === 0) callers.delete(caller)
    },
  })

  /** Returns the name under which it is kept. */
  function keep(caller: string, answer: KeptAnswer): string {
    const id = randomBytes(ID_BYTES).toString('latin1')
    const own = callers.get(caller) ?? new Set<string>()
    callers.set(caller, own)
    own.add(id)
    answers.set(id, { ...answer, caller })
    const [oldest] = own
    if (own.size > MOST_A_CALLER && oldest !== undefined) answers.delete(oldest)
    return id
  }

  function cursor(id: string, from: number, binding: string): string {
    const body = Buffer.alloc(ID_BYTES + 4)
    body.write(id, 'latin1')
    body.writeUInt32BE(from, ID_BYTES)
    return cursors.write(body, binding)
  }

  /** Undefined for a cursor of another binding, or when its answer is gone. */
  function find(text: string, binding: string): { id: string; answer: KeptAnswer; from: number } | undefined {
    const body = cursors.read(text, binding)
    if (body?.byteLength !== ID_BYTES + 4) return undefined
    const id = body.toString('latin1', 0, ID_BYTES)
    const answer = answers.get(id)
    return answer && { id, answer, from: body.readUInt32BE(ID_BYTES) }
  }

  return { keep, cursor, find, close: () => answers.clear() }
}

export type Kept = ReturnType<typeof createKept>
