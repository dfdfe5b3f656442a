/**
 * The A2A tasks that callers may ask for again, each visible to its owner only. The SDK's own store never forgets and
 * clones whole pages (docs/decisions.md#serving-from-bytes); this one is bounded in count, bytes and time, and keeps
 * prepared rows as they are.
 */
import { Task as A2aTask } from '@a2a-js/sdk'
import { InMemoryTaskStore, type ServerCallContext, type TaskStore } from '@a2a-js/sdk/server'
import { LRUCache } from 'lru-cache'
import { bufferOf } from '../../adcp/json.js'
import { textOf, wrapped } from '../answer/chunks.js'
import { type AnswerPayload, type Words, wordsOf } from '../answer/payload.js'

const MAX_TASKS = 2_000
const MAX_BYTES = 64 * 1024 * 1024
const KEEP_MS = 10 * 60_000
const SWEEP_MS = 60_000
const LISTED = 100 // newest tasks of an owner that a listing can reach; each may hold a page

export type KeptTask = {
  id: string
  contextId: string
  /** ISO 8601. */
  timestamp: string
  payload: AnswerPayload
  /** The protocol's own profile was asked for (a2a-profile.ts). */
  profiled: boolean
}

type Own = Pick<AnswerPayload, 'words' | 'rows'>

/** By the words of an answer: where it is given again, its tasks share one copy. */
const copies = new WeakMap<Words, Own>()

/**
 * Words and rows of an answer in memory of their own. Its rows are views into the chunks of a snapshot, and a view keeps
 * a whole chunk alive for as long as the task is kept; so do words that are not made yet.
 */
function ownOf({ words, rows }: AnswerPayload): Own {
  const known = copies.get(words)
  if (known) return known
  const text = words.text()
  const whole = rows.length === 0 ? [] : [Buffer.concat(rows.map(bufferOf))]
  const own = { words: wordsOf(() => text), rows: whole }
  copies.set(words, own)
  return own
}

function detached({ payload, ...task }: KeptTask): KeptTask {
  return { ...task, payload: { ...payload, ...ownOf(payload) } }
}

function bytesOf({ payload }: KeptTask): number {
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
export function artifactMetadata({ payload, profiled }: KeptTask): { adcp_task_id: string } | undefined {
  return payload.taskId === undefined || profiled ? undefined : { adcp_task_id: payload.taskId }
}

function revived(task: KeptTask): A2aTask {
  const { id, contextId, timestamp, payload } = task
  const data: unknown = JSON.parse(textOf(wrapped('', payload, '')))
  const status = { state: taskState(payload, '1.0'), timestamp }
  const parts = [{ data }, { text: payload.isError ? payload.message : payload.words.text() }]
  const metadata = artifactMetadata(task)
  const artifact = { artifactId: `${id}-result`, name: 'result', parts, ...(metadata && { metadata }) }
  return A2aTask.fromJSON({ id, contextId, status, artifacts: [artifact] })
}

export function createA2aTasks(now: () => number) {
  const kept = new LRUCache<string, { owner: string; task: KeptTask }>({
    max: MAX_TASKS,
    maxSize: MAX_BYTES,
    sizeCalculation: ({ task }) => bytesOf(task) + 512,
    ttl: KEEP_MS,
    ttlResolution: 0, // the clock given here is the only one
    perf: { now },
  })
  const nameOf = (owner: string, id: string) => `${owner} ${id}`
  const ownerOf = (context: ServerCallContext) => context.user?.userName ?? ''

  let swept = now()

  /** What nobody asks for again would stay beyond its time until its place is needed. */
  function sweep(): void {
    if (now() - swept < SWEEP_MS) return
    swept = now()
    kept.purgeStale()
  }

  /** Anonymous callers own nothing: two of them cannot be told apart. */
  function keep(owner: string | undefined, task: KeptTask): void {
    sweep()
    if (owner !== undefined) kept.set(nameOf(owner, task.id), { owner, task: detached(task) })
  }

  async function load(id: string, context: ServerCallContext): Promise<A2aTask | undefined> {
    const found = kept.get(nameOf(ownerOf(context), id))
    return found && revived(found.task)
  }

  const store: TaskStore = {
    load,
    async list(params, context) {
      const owner = ownerOf(context)
      const newest = [...kept.values()].filter((entry) => entry.owner === owner).slice(0, LISTED)
      // Filters and page tokens are the library's; it sees the owner's tasks for one listing and is dropped.
      const listing = new InMemoryTaskStore()
      for (const { task } of newest) await listing.save(revived(task), context)
      return listing.list(params, context)
    },
    async save() {
      // Every task is kept by `keep` in its terminal state; the SDK has nothing to add to it.
    },
  }

  const has = (owner: string | undefined, id: string) => owner !== undefined && kept.has(nameOf(owner, id))

  return { keep, has, store, size: () => kept.size }
}

export type A2aTasks = ReturnType<typeof createA2aTasks>
