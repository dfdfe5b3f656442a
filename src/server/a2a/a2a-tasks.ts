/**
 * The A2A tasks that callers may read again, each visible to its owner only. The SDK's own store never deletes and
 * clones whole pages (docs/decisions.md#serving-from-bytes); this one is bounded in count, bytes and time, and keeps
 * prepared rows as they are. It is a ring with reused places, because every call over A2A ends in one: new objects for
 * each task would survive the collector's youngest generation, and that costs more than the call.
 */
import { randomBytes } from 'node:crypto'
import { bufferOf } from '../../adcp/json.js'
import { type AnswerPayload, type AnswerWords, answerWords } from '../answer/payload.js'
import { type AnsweredTask, contentOf } from './a2a-content.js'
import type { FoundTask, SharedTasks } from './a2a-shared.js'

const MAX_TASKS = 2_000
const MAX_BYTES = 64 * 1024 * 1024
const KEEP_MS = 10 * 60_000
const IDS = /^a2a_[\w-]{16}_\d+$/
const LISTED = 100 // newest tasks of an owner that a listing returns; each may hold a page

type Held = AnsweredTask & { owner: string; bytes: number }

type Own = Pick<AnswerPayload, 'words' | 'rows'>

/** By the words of an answer: where it is given again, its tasks share one copy. */
const copies = new WeakMap<AnswerWords, Own>()

/**
 * A copy of an answer's text and rows in its own memory. Its rows are views into the chunks of a snapshot, and a view
 * keeps a whole chunk alive for as long as the task is kept; so does a text that has not been made yet.
 */
function ownOf({ words, rows }: AnswerPayload): Own {
  const known = copies.get(words)
  if (known) return known
  const text = words.text()
  const whole = rows.length === 0 ? [] : [Buffer.concat(rows.map(bufferOf))]
  const own = { words: answerWords(() => text), rows: whole }
  copies.set(words, own)
  return own
}

function bytesOf(payload: AnswerPayload): number {
  return payload.rows.reduce((sum, row) => sum + row.byteLength, payload.head.length + payload.tail.length)
}

/** `shared`: where other processes find them, and this one theirs; absent: it is alone. */
export function createA2aTasks(now: () => number, shared?: SharedTasks) {
  const [ours, nobodys] = [0, 1].map(() => `a2a_${randomBytes(12).toString('base64url')}_`) as [
    string,
    string,
  ]
  const places: (Held | undefined)[] = new Array(MAX_TASKS).fill(undefined)
  const times = new Float64Array(MAX_TASKS)
  /** Answers that are given again are held once for all their tasks. */
  const again = new WeakMap<AnswerPayload, Held>()
  let next = 0 // tasks are numbered in turn; the number gives the place in the ring
  let oldest = 0
  let unowned = 0
  let bytes = 0

  const placeOf = (number: number) => number % MAX_TASKS
  const isOver = (number: number, at: number) => at - (times[placeOf(number)] as number) > KEEP_MS

  function drop(): void {
    const place = placeOf(oldest)
    bytes -= places[place]?.bytes ?? 0
    places[place] = undefined
    oldest += 1
  }

  function heldOf(owner: string, { payload, profiled }: AnsweredTask): Held {
    const known = payload.comesAgain ? again.get(payload) : undefined
    if (known?.owner === owner && known.profiled === profiled) return known
    const held = {
      owner,
      profiled,
      payload: { ...payload, ...ownOf(payload) },
      bytes: bytesOf(payload) + 512,
    }
    if (payload.comesAgain) again.set(payload, held)
    return held
  }

  /**
   * The id of the task that holds an answer. Anonymous callers own no task, because two of them cannot be told apart.
   */
  function keep(owner: string | undefined, answered: AnsweredTask, at: number): string {
    while (oldest < next && isOver(oldest, at)) drop()
    if (owner === undefined) return `${nobodys}${unowned++}`
    if (next - oldest === MAX_TASKS) drop()
    const number = next++
    const held = heldOf(owner, answered)
    places[placeOf(number)] = held
    times[placeOf(number)] = at
    bytes += held.bytes
    while (bytes > MAX_BYTES) drop()
    const id = `${ours}${number}`
    shared?.add(owner, id, held, at)
    return id
  }

  function find(owner: string | undefined, id: string): { held: Held; at: number } | undefined {
    const number = id.startsWith(ours) ? Number(id.slice(ours.length)) : Number.NaN
    const isKept = number >= oldest && number < next && !isOver(number, now())
    const held = isKept ? places[placeOf(number)] : undefined
    if (held === undefined || held.owner !== owner || `${ours}${number}` !== id) return undefined
    return { held, at: times[placeOf(number)] as number }
  }

  const own = (id: string, { held, at }: { held: Held; at: number }): FoundTask => ({
    ...{ id, at },
    content: contentOf(held),
  })

  async function known(owner: string, id: string): Promise<FoundTask | undefined> {
    const found = find(owner, id)
    if (found) return own(id, found)
    return owner !== '' && IDS.test(id) && !id.startsWith(ours) ? await shared?.find(owner, id) : undefined
  }

  function newestHere(owner: string): FoundTask[] {
    const listed: FoundTask[] = []
    for (let number = next - 1; number >= oldest && listed.length < LISTED; number -= 1) {
      const id = `${ours}${number}`
      const found = find(owner, id)
      if (found) listed.push(own(id, found))
    }
    return listed
  }

  /** Those that a listing shows, newest first. */
  async function newest(owner: string): Promise<FoundTask[]> {
    const here = newestHere(owner)
    const elsewhere = owner === '' ? [] : ((await shared?.newest(owner, LISTED)) ?? [])
    const others = elsewhere.filter(({ id }) => !id.startsWith(ours))
    return [...here, ...others].sort((one, other) => other.at - one.at).slice(0, LISTED)
  }

  const has = async (owner: string | undefined, id: string) =>
    owner !== undefined && (await known(owner, id)) !== undefined

  return { keep, has, known, newest, size: () => next - oldest }
}

export type A2aTasks = ReturnType<typeof createA2aTasks>
