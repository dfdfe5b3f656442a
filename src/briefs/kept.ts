/**
 * Answers that are kept for their further pages. An answer keeps the order of its signals, how well each fits and what it lacks,
 * not their content: a page shows each signal as it stands then (`standing.ts`). Bounded in number, per caller and in all, and in
 * time. What upstreams said for an answer is bounded in bytes: without it, those rows are found by their handles. Answers are also
 * written to the storage as bytes, where other processes find them. While that fails, cursors say so, and the answer is written
 * once the storage can be reached again.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createSignedCursors } from '../feed/cursor.js'
import { WORDS } from '../merge/keys.js'
import type { Clock } from '../net/clock.js'
import { memoryOf, type Snapshot } from '../snapshot/snapshot.js'
import type { FoundRow } from '../store/records/found.js'
import type { Handover } from '../store/replicas/handover.js'
import { slabBytes } from '../upstreams/rows/slab.js'
import type { Missing } from './brief.js'
import type { Relevance } from './rank.js'

const HUNDREDTHS = 100
const KEEP_MS = 15 * 60_000
const MOST = 2_000
const MOST_A_CALLER = 50
const ID_BYTES = 12
const NUMBER_BYTES = 4
const TELL_AGAIN_MS = 1_000
const SAID_BYTES = 64 * 1024 ** 2
const ROW_BYTES = 700 // of a row that an upstream gave, besides its listing
const BYTES_A_CHARACTER = 2
/** Of an answer as bytes. */
const FORM = 1
const HEADER_LENGTH = 4
const WORD_BYTES = 4

/** How well the signals of an answer match its question, by index in its order. */
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

/** What upstreams said and the feed lacks; `bytes` with what `standing.ts` keeps of it, read and put together. */
type Said = { rows: readonly FoundRow[]; bytes: number }

/** `extra`: what was put together of the rows. */
export function saidOf(rows: readonly FoundRow[], extra: Snapshot | undefined): Said {
  const texts = rows.reduce(
    (sum, { listing }) => sum + ROW_BYTES + BYTES_A_CHARACTER * listing.length + Buffer.byteLength(listing),
    1,
  )
  const slabs = extra?.slices.reduce((sum, { slice }) => sum + slabBytes(slice.rows), 0) ?? 0
  return { rows, bytes: texts + slabs + (extra ? memoryOf(extra, undefined).added : 0) }
}

export type KeptAnswer = {
  /** Four words per signal, in the order of the answer. */
  keys: Uint32Array
  /** Absent where it is no longer kept, or was kept by another process. */
  said?: Said
  /** The handles of the signals that the feed lacks. */
  beside: readonly string[]
  /** What the whole answer lacks, besides what the feed does. */
  missing: readonly Missing[]
  /** How well each fits; absent where nothing was asked in words. */
  relevance?: KeptRelevance
}

/** What stands before the numbers of an answer. */
type Header = {
  form: number
  count: number
  beside: readonly string[]
  missing?: readonly Missing[]
  relevance?: { labels: readonly string[]; first: number }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array | Float32Array) =>
  new Uint8Array(buffer, byteOffset, byteLength)

/** The bytes of an answer, without `said`: a reader finds those rows by their handles. */
function orderOf({ keys, beside, missing, relevance }: KeptAnswer): Uint8Array {
  const about: Header = {
    ...{ form: FORM, count: keys.length / WORDS, beside, missing },
    ...(relevance && { relevance: { labels: relevance.labels, first: relevance.first } }),
  }
  const header = Buffer.from(JSON.stringify(about))
  const length = Buffer.alloc(HEADER_LENGTH)
  length.writeUInt32LE(header.byteLength)
  const numbers = [keys, ...(relevance ? [relevance.fits, relevance.matches] : [])]
  return Buffer.concat([length, header, ...numbers.map(bytesOf)])
}

/** The answer of such bytes; undefined for bytes of a release with another form. */
function orderFrom(bytes: Uint8Array): KeptAnswer | undefined {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const start = HEADER_LENGTH + whole.readUInt32LE()
  const {
    form,
    count,
    beside,
    missing = [],
    relevance,
  } = JSON.parse(whole.toString('utf8', HEADER_LENGTH, start)) as Header
  if (form !== FORM) return undefined
  let at = start
  const numbers = (length: number): ArrayBuffer => {
    const from = at
    at += length * WORD_BYTES
    return new Uint8Array(whole.subarray(from, at)).buffer
  }
  const keys = new Uint32Array(numbers(count * WORDS))
  if (!relevance) return { keys, beside, missing }
  const fits = new Float32Array(numbers(count))
  const matches = new Uint32Array(numbers(count))
  return { keys, beside, missing, relevance: { ...relevance, fits, matches } }
}

type KeptOptions = {
  clock: Clock
  /** What cursors are signed with: the same for all processes that share answers. */
  secret: string | Uint8Array
  /** Where other processes find answers; absent when there are no other processes. */
  shared?: Pick<Handover, 'keep' | 'find'>
  /** Called when an answer could not be written for other processes. */
  onTrouble(message: string): void
}

/**
 * What cursors hold of an answer. `untoldUntil`, seconds since the epoch: until then other processes may not find the
 * answer, although it is kept.
 */
type Name = { id: string; untoldUntil?: number }

type Found = Name & { kind: 'found'; answer: KeptAnswer; from: number }

/** Cursors are bound to a text (the caller and its question). */
export function createKept({ clock, secret, shared, onTrouble }: KeptOptions) {
  const { now } = clock
  const cursors = createSignedCursors(secret)
  const untold = new Set<string>()
  let cancelTelling: (() => void) | undefined
  const callers = new Map<string, Set<string>>()
  const sayings = new LRUCache<string, Said>({ maxSize: SAID_BYTES, sizeCalculation: ({ bytes }) => bytes })
  const answers = new LRUCache<string, Omit<KeptAnswer, 'said'> & { caller: string }>({
    max: MOST,
    ttl: KEEP_MS,
    perf: { now },
    ttlResolution: 0,
    dispose({ caller }, id) {
      sayings.delete(id)
      untold.delete(id)
      const own = callers.get(caller)
      own?.delete(id)
      if (own?.size === 0) callers.delete(caller)
    },
  })
  const nameOf = (id: string) => Buffer.from(id, 'latin1').toString('base64url')

  /** Writes an answer for other processes. Rejects when the storage cannot be reached. */
  async function tell(id: string): Promise<void> {
    const answer = answers.get(id)
    if (!answer) return // no longer kept
    await shared?.keep([{ name: nameOf(id), kind: 'answer', owner: answer.caller, bytes: orderOf(answer) }])
  }

  async function tellUntold(): Promise<void> {
    try {
      for (const id of untold) {
        await tell(id)
        untold.delete(id)
      }
    } catch {
      // `onTrouble` was called when the answer was kept.
    }
    cancelTelling = undefined
    tellLater()
  }

  function tellLater(): void {
    if (untold.size > 0) cancelTelling ??= clock.after(TELL_AGAIN_MS, () => void tellUntold())
  }

  /** Keeps an answer and gives its name, once it is written for other processes or that has failed. */
  async function keep(caller: string, { said, ...answer }: KeptAnswer): Promise<Name> {
    const id = randomBytes(ID_BYTES).toString('latin1')
    const own = callers.get(caller) ?? new Set<string>()
    callers.set(caller, own)
    own.add(id)
    answers.set(id, { ...answer, caller })
    if (said) sayings.set(id, said)
    const [oldest] = own
    if (own.size > MOST_A_CALLER && oldest !== undefined) answers.delete(oldest)
    try {
      await tell(id)
      return { id }
    } catch (error) {
      onTrouble(`other processes cannot show the further pages of an answer: ${(error as Error).message}`)
      untold.add(id)
      tellLater()
      return { id, untoldUntil: Math.ceil((now() + KEEP_MS) / 1_000) }
    }
  }

  function cursor({ id, untoldUntil }: Name, from: number, binding: string): string {
    const numbers = [from, ...(untoldUntil === undefined ? [] : [untoldUntil])]
    const body = Buffer.alloc(ID_BYTES + numbers.length * NUMBER_BYTES)
    body.write(id, 'latin1')
    for (const [at, number] of numbers.entries()) body.writeUInt32BE(number, ID_BYTES + at * NUMBER_BYTES)
    return cursors.write(body, binding)
  }

  function known(id: string): KeptAnswer | undefined {
    const answer = answers.get(id)
    const said = answer && sayings.get(id)
    return said ? { ...answer, said } : answer
  }

  async function fetched(caller: string, id: string): Promise<KeptAnswer | undefined> {
    const found = await shared?.find('answer', caller, nameOf(id))
    return found && orderFrom(found.bytes)
  }

  /**
   * Undefined for a cursor of another binding, or when its answer is no longer kept; `untold` when so far only the process
   * that gave the cursor may know the answer. Rejects when the storage is needed and cannot be reached.
   */
  async function find(
    text: string,
    binding: string,
    caller: string,
  ): Promise<Found | { kind: 'untold' } | undefined> {
    const body = cursors.read(text, binding)
    const numbers = ((body?.byteLength ?? 0) - ID_BYTES) / NUMBER_BYTES
    if (!body || (numbers !== 1 && numbers !== 2)) return undefined
    const id = body.toString('latin1', 0, ID_BYTES)
    const untoldUntil = numbers === 2 ? body.readUInt32BE(ID_BYTES + NUMBER_BYTES) : 0
    const isUntold = now() < untoldUntil * 1_000
    const answer = known(id) ?? (await fetched(caller, id))
    if (!answer) return isUntold ? { kind: 'untold' } : undefined
    return { kind: 'found', id, answer, from: body.readUInt32BE(ID_BYTES), ...(isUntold && { untoldUntil }) }
  }

  return {
    keep,
    cursor,
    find,
    close(): void {
      answers.clear()
      cancelTelling?.()
    },
  }
}

export type Kept = ReturnType<typeof createKept>
