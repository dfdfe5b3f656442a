/**
 * The A2A tasks that callers may read again, each visible to its owner only. The SDK's own store never deletes and
 * clones whole pages (docs/decisions.md#serving-from-bytes); this one is bounded in count, bytes and time, and keeps
 * prepared rows as they are. It is a ring with reused places, because every call over A2A ends in one: new objects for
 * each task would survive the collector's youngest generation, and that costs more than the call.
 */
import { randomBytes } from 'node:crypto'
import { Task as A2aTask } from '@a2a-js/sdk'
import { InMemoryTaskStore, type ServerCallContext, type TaskStore } from '@a2a-js/sdk/server'
import { bufferOf } from '../../adcp/json.js'
import { textOf, wrapped } from '../answer/chunks.js'
import { type AnswerPayload, type AnswerWords, answerWords } from '../answer/payload.js'

const MAX_TASKS = 2_000
const MAX_BYTES = 64 * 1024 * 1024
const KEEP_MS = 10 * 60_000
const LISTED = 100 // newest tasks of an owner that a listing returns; each may hold a page

/** A call that was answered. */
export type AnsweredTask = {
  payload: AnswerPayload
  /** The protocol's own profile was asked for (a2a-profile.ts). */
  profiled: boolean
}

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

/** The JSON text of the task's state, in the words of 1.0 or of 0.3. */
export function taskState(payload: AnswerPayload, dialect: '1.0' | '0.3'): string {
  // An AdCP task that was submitted is an A2A task that is completed (docs/protocol.md#a2a).
  if (dialect === '1.0') return payload.isError ? 'TASK_STATE_FAILED' : 'TASK_STATE_COMPLETED'
  return payload.isError ? 'failed' : 'completed'
}

/**
 * What clients of earlier releases know an open task of ours by. In the profile the handle stands once, in the data
 * (AdCP A2A Profile Extension, "Submitted AdCP work").
 */
export function artifactMetadata({ payload, profiled }: AnsweredTask): { adcp_task_id: string } | undefined {
  return payload.taskId === undefined || profiled ? undefined : { adcp_task_id: payload.taskId }
}

function revived(id: string, held: Held, at: number): A2aTask {
  const { payload } = held
  const data: unknown = JSON.parse(textOf(wrapped('', payload, '')))
  const status = { state: taskState(payload, '1.0'), timestamp: new Date(at).toISOString() }
  const parts = [{ data }, { text: payload.isError ? payload.message : payload.words.text() }]
  const metadata = artifactMetadata(held)
  const artifact = { artifactId: `${id}-result`, name: 'result', parts, ...(metadata && { metadata }) }
  return A2aTask.fromJSON({ id, contextId: payload.contextId, status, artifacts: [artifact] })
}

export function createA2aTasks(now: () => number) {
  const [ours, nobodys] = [0, 1].map(() => `a2a_${randomBytes(12).toString('base64url')}_`) as [
    string,
    string,
  ]
  const places: (Held | undefined)[] = new Array(MAX_TASKS).fill(undefined)
  const times = new Float64Array(MAX_TASKS)
  /** Answers that are given again are held once for all their tasks. */
  const shared = new WeakMap<AnswerPayload, Held>()
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
    const known = payload.comesAgain ? shared.get(payload) : undefined
    if (known?.owner === owner && known.profiled === profiled) return known
    const held = {
      owner,
      profiled,
      payload: { ...payload, ...ownOf(payload) },
      bytes: bytesOf(payload) + 512,
    }
    if (payload.comesAgain) shared.set(payload, held)
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
    return `${ours}${number}`
  }

  function find(owner: string | undefined, id: string): { held: Held; at: number } | undefined {
    const number = id.startsWith(ours) ? Number(id.slice(ours.length)) : Number.NaN
    const isKept = number >= oldest && number < next && !isOver(number, now())
    const held = isKept ? places[placeOf(number)] : undefined
    if (held === undefined || held.owner !== owner || `${ours}${number}` !== id) return undefined
    return { held, at: times[placeOf(number)] as number }
  }

  const ownerOf = (context: ServerCallContext) => context.user?.userName ?? ''

  async function load(id: string, context: ServerCallContext): Promise<A2aTask | undefined> {
    const found = find(ownerOf(context), id)
    return found && revived(id, found.held, found.at)
  }

  const store: TaskStore = {
    load,
    async list(params, context) {
      const owner = ownerOf(context)
      // Filters and page tokens are the library's; it sees the owner's tasks for one listing and is dropped.
      const listing = new InMemoryTaskStore()
      let listed = 0
      for (let number = next - 1; number >= oldest && listed < LISTED; number -= 1) {
        const id = `${ours}${number}`
        const found = find(owner, id)
        if (!found) continue
        listed += 1
        await listing.save(revived(id, found.held, found.at), context)
      }
      return listing.list(params, context)
    },
    async save() {
      // Every task is kept by `keep` in its terminal state; the SDK has nothing to add to it.
    },
  }

  const has = (owner: string | undefined, id: string) => find(owner, id) !== undefined

  return { keep, has, store, size: () => next - oldest }
}

export type A2aTasks = ReturnType<typeof createA2aTasks>
