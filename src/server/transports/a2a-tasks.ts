/**
 * The A2A tasks that callers may read again, each visible to its owner only: what such a task shows (docs/protocol.md#a2a),
 * those of this process, and those that other processes on the same storage began.
 *
 * The SDK's own store never deletes and clones whole pages (docs/decisions.md#serving-from-bytes); this one is bounded in
 * count, bytes and time, and keeps prepared rows as they are. It is a ring with reused places, because every call over A2A
 * ends in one: new objects for each task would survive the collector's youngest generation, and that costs more than the call.
 */
import { randomBytes } from 'node:crypto'
import { bufferOf } from '../../adcp/json.js'
import { type Clock, pause } from '../../net/clock.js'
import { StorageUnavailable } from '../../store/database/storage-work.js'
import type { FoundItem, Handover, HandoverItem } from '../../store/replicas/handover.js'
import { textOf, wrapped } from '../answer/exchange.js'
import { type AnswerPayload, type AnswerWords, answerWords } from '../answer/payload.js'
import { createTaskIds, isTaskId } from './a2a-ids.js'
import {
  contextDigest,
  factsFrom,
  factsWord,
  inOrder,
  isWanted,
  type Place,
  type WantedTasks,
} from './a2a-listing.js'

const MAX_TASKS = 2_000
const MAX_BYTES = 64 * 1024 * 1024
const KEEP_MS = 10 * 60_000

const BATCH = 64 // written at once for other processes
const MOST_UNWRITTEN = 2_000
const MOST_UNWRITTEN_BYTES = 16 * 1024 * 1024
/** When to look for a task of another process that is not there, ms after the look before. */
const LOOKS_MS = [0, 50, 150, 400]

/** A call that was answered. */
export type AnsweredTask = {
  payload: AnswerPayload
  /** The protocol's own profile was asked for (a2a-message.ts). */
  profiled: boolean
}

type About = {
  contextId: string
  isError: boolean
  /** Of the text part. */
  text: string
  metadata?: { adcp_task_id: string }
}

type TaskContent = About & {
  /** JSON text of the data part. */
  data: string
}

export type FoundTask = { id: string; content: TaskContent; at: number }

type SharedTasksOptions = {
  handover: Handover
  clock: Clock
  onTrouble(message: string): void
}

type Waiting = { items: readonly HandoverItem[]; bytes: number }

type Held = AnsweredTask & { owner: string; bytes: number }

type Own = Pick<AnswerPayload, 'words' | 'rows'>

/** The JSON text of the task's state, in the words of 1.0 or of 0.3. */
export function taskState({ isError }: { isError: boolean }, dialect: '1.0' | '0.3'): string {
  // An AdCP task that was submitted is an A2A task that is completed (docs/protocol.md#a2a).
  if (dialect === '1.0') return isError ? 'TASK_STATE_FAILED' : 'TASK_STATE_COMPLETED'
  return isError ? 'failed' : 'completed'
}

/**
 * What clients of earlier releases know an open task of ours by. In the profile the handle stands once, in the data
 * (AdCP A2A Profile Extension, "Submitted AdCP work").
 */
export function artifactMetadata({ payload, profiled }: AnsweredTask): { adcp_task_id: string } | undefined {
  return payload.taskId === undefined || profiled ? undefined : { adcp_task_id: payload.taskId }
}

function contentOf(answered: AnsweredTask): TaskContent {
  const { payload } = answered
  const { contextId, isError, message, words } = payload
  const metadata = artifactMetadata(answered)
  return {
    ...{ contextId, isError, text: isError ? message : words.text() },
    ...(metadata && { metadata }),
    data: textOf(wrapped('', payload, '')),
  }
}

function contentBytes({ data, ...about }: TaskContent): Uint8Array {
  return Buffer.from(`${JSON.stringify(about)}\n${data}`) // JSON has no line break of its own
}

function contentFrom(bytes: Uint8Array): TaskContent {
  const text = bufferOf(bytes).toString()
  const end = text.indexOf('\n')
  return { ...(JSON.parse(text.slice(0, end)) as About), data: text.slice(end + 1) }
}

function foundTask({ name, about, bytes }: FoundItem): FoundTask {
  return { id: name, content: contentFrom(bytes), at: factsFrom(about).at }
}

/** While the storage is away, the tasks of other processes are not known. */
function unlessAway<T>(found: Promise<T>, otherwise: T): Promise<T> {
  return found.catch((error: unknown) => {
    if (!(error instanceof StorageUnavailable)) throw error
    return otherwise
  })
}

/**
 * A2A tasks that other processes on the same storage began, and ours for them. Tasks are written behind their answers, many at
 * once, because every call over A2A ends in one and few are ever asked for; so whoever asks for a task of another process that
 * is not there yet looks again for a moment. Where the storage cannot take as many as there are, the oldest that wait are left
 * out: they are still known where they began.
 */
export function createSharedTasks({ handover, clock, onTrouble }: SharedTasksOptions) {
  /** Answers that are given again are written once for all tasks of their owner. */
  const bodies = new WeakMap<AnsweredTask, { name: string; bytes: Uint8Array }>()
  const waiting: Waiting[] = []
  let bytes = 0
  let writing: Promise<void> | undefined

  function bodyOf(answered: AnsweredTask) {
    const known = bodies.get(answered)
    if (known) return known
    const body = { name: randomBytes(12).toString('base64url'), bytes: contentBytes(contentOf(answered)) }
    if (answered.payload.comesAgain) bodies.set(answered, body)
    return body
  }

  function taken(): HandoverItem[] {
    const batch = waiting.splice(0, BATCH)
    bytes -= batch.reduce((sum, one) => sum + one.bytes, 0)
    return [...new Map(batch.flatMap(({ items }) => items).map((item) => [item.name, item])).values()]
  }

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const items = taken()
      await handover.keep(items).catch((error: Error) => {
        onTrouble(`A2A tasks are not known to other processes: ${error.message}`)
      })
    }
    writing = undefined
  }

  /** `answered`: the same object where an answer is given again. Returns at once. */
  function add(owner: string, id: string, answered: AnsweredTask, at: number): void {
    const { name: body, bytes: content } = bodyOf(answered)
    const { payload } = answered
    const facts = { at, state: taskState(payload, '1.0'), context: contextDigest(payload.contextId) }
    const about = factsWord(facts)
    const items: HandoverItem[] = [
      { name: body, kind: 'body', owner, bytes: content },
      { name: id, kind: 'task', owner, about, body },
    ]
    waiting.push({ items, bytes: content.byteLength })
    bytes += content.byteLength
    while (waiting.length > MOST_UNWRITTEN || bytes > MOST_UNWRITTEN_BYTES)
      bytes -= waiting.shift()?.bytes ?? 0
    writing ??= write()
  }

  return {
    add,
    /** Undefined when there is none, or the storage cannot be asked. */
    async find(owner: string, id: string): Promise<FoundTask | undefined> {
      for (const ms of LOOKS_MS) {
        if (ms > 0) await pause(clock, ms)
        const found = await unlessAway(handover.find('task', owner, id), undefined)
        if (found) return foundTask(found)
      }
      return undefined
    },
    /** Where those of an owner stand that are wanted, in no order. */
    async places(owner: string, wanted: WantedTasks): Promise<Place[]> {
      const { context, ...others } = wanted
      const meant = { ...others, ...(context !== undefined && { context: contextDigest(context) }) }
      return (await unlessAway(handover.listed('task', owner), [])).flatMap(({ name, about }) => {
        const facts = factsFrom(about)
        return isWanted(facts, meant) ? [{ id: name, at: facts.at }] : []
      })
    },
    /** Those of an owner that are there, in no order. */
    these: async (owner: string, ids: readonly string[]): Promise<FoundTask[]> =>
      ids.length === 0 ? [] : (await unlessAway(handover.these('task', owner, ids), [])).map(foundTask),
    /** Resolves when everything is written, or could not be. */
    close: async (): Promise<void> => void (await writing),
  }
}

export type SharedTasks = ReturnType<typeof createSharedTasks>

/** By the words of an answer: where it is given again, its tasks share one copy. */
const copies = new WeakMap<AnswerWords, Own>()

/**
 * A copy of an answer's text and rows in its own memory. Its rows are views into the chunks of a snapshot, and a view
 * keeps a whole chunk alive for as long as the task is kept (so does a text that has not been made yet); or they are in lent
 * memory (process/memory.ts), where another answer will stand.
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
  const ours = createTaskIds()
  const nobodys = createTaskIds()
  const ring: (Held | undefined)[] = new Array(MAX_TASKS).fill(undefined)
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
    bytes -= ring[place]?.bytes ?? 0
    ring[place] = undefined
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
    if (owner === undefined) return nobodys.idOf(unowned++)
    if (next - oldest === MAX_TASKS) drop()
    const number = next++
    const held = heldOf(owner, answered)
    ring[placeOf(number)] = held
    times[placeOf(number)] = at
    bytes += held.bytes
    while (bytes > MAX_BYTES) drop()
    const id = ours.idOf(number)
    shared?.add(owner, id, held, at)
    return id
  }

  function find(owner: string | undefined, id: string): { held: Held; at: number } | undefined {
    const number = ours.numberOf(id)
    const isKept = number >= oldest && number < next && !isOver(number, now())
    const held = isKept ? ring[placeOf(number)] : undefined
    if (held === undefined || held.owner !== owner) return undefined
    return { held, at: times[placeOf(number)] as number }
  }

  const own = (id: string, { held, at }: { held: Held; at: number }): FoundTask => ({
    ...{ id, at },
    content: contentOf(held),
  })

  async function known(owner: string, id: string): Promise<FoundTask | undefined> {
    const found = find(owner, id)
    if (found) return own(id, found)
    return owner !== '' && isTaskId(id) && !ours.has(id) ? await shared?.find(owner, id) : undefined
  }

  function placesHere(owner: string, wanted: WantedTasks): Place[] {
    const found: Place[] = []
    const due = now()
    for (let number = oldest; number < next; number += 1) {
      const held = ring[placeOf(number)]
      const at = times[placeOf(number)] as number
      if (held?.owner !== owner || isOver(number, due)) continue
      const facts = { at, state: taskState(held.payload, '1.0'), context: held.payload.contextId }
      if (isWanted(facts, wanted)) found.push({ id: ours.idOf(number), at })
    }
    return found
  }

  /** Only the answers of the page are read. */
  async function list(owner: string, wanted: WantedTasks, page: { after?: Place; most: number }) {
    const elsewhere = owner === '' ? [] : ((await shared?.places(owner, wanted)) ?? [])
    const others = elsewhere.filter(({ id }) => !ours.has(id))
    const all = [...placesHere(owner, wanted), ...others].sort(inOrder)
    const { after, most } = page
    const left = after ? all.filter((place) => inOrder(after, place) < 0) : all
    const shown = left.slice(0, most)
    const foreign = shown.flatMap(({ id }) => (ours.has(id) ? [] : [id]))
    const read = (await shared?.these(owner, foreign)) ?? []
    const byId = new Map(read.map((found) => [found.id, found]))
    const tasks = shown.flatMap(({ id }) => {
      const held = find(owner, id)
      const found = held ? own(id, held) : byId.get(id)
      return found ? [found] : []
    })
    return { tasks, total: all.length, next: left.length > most ? shown.at(-1) : undefined }
  }

  const has = async (owner: string | undefined, id: string) =>
    owner !== undefined && (await known(owner, id)) !== undefined

  return { keep, has, known, list }
}

export type A2aTasks = ReturnType<typeof createA2aTasks>
