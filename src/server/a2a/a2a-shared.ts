/**
 * A2A tasks that other processes on the same storage began, and ours for them. Tasks are written behind their answers,
 * many at once, because every call over A2A ends in one and few are ever asked for; so whoever asks for a task of
 * another process that is not there yet looks again for a moment. Where the storage cannot take as many as there are,
 * the oldest that wait are left out: they are still known where they began.
 */
import { randomBytes } from 'node:crypto'
import { type Clock, pause } from '../../net/clock.js'
import { StorageUnavailable } from '../../store/database/unavailable.js'
import type { FoundItem, Handover, HandoverItem } from '../../store/replicas/handover.js'
import { type AnsweredTask, contentBytes, contentFrom, contentOf, type TaskContent } from './a2a-content.js'

const BATCH = 64
const MOST_WAITING = 2_000
const MOST_WAITING_BYTES = 16 * 1024 * 1024
/** When to look for a task that is not there, ms after the look before. */
const LOOKS_MS = [0, 50, 150, 400]

export type FoundTask = { id: string; content: TaskContent; at: number }

export type SharedTasks = ReturnType<typeof createSharedTasks>

type SharedTasksOptions = {
  handover: Handover
  clock: Clock
  onTrouble(message: string): void
}

type Waiting = { items: readonly HandoverItem[]; bytes: number }

function foundTask({ name, about, bytes }: FoundItem): FoundTask {
  return { id: name, content: contentFrom(bytes), at: Number(about) }
}

/** While the storage is away, the tasks of other processes are not known. */
function unlessAway<T>(found: Promise<T>, otherwise: T): Promise<T> {
  return found.catch((error: unknown) => {
    if (!(error instanceof StorageUnavailable)) throw error
    return otherwise
  })
}

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
    const items: HandoverItem[] = [
      { name: body, kind: 'body', owner, bytes: content },
      { name: id, kind: 'task', owner, about: String(at), body },
    ]
    waiting.push({ items, bytes: content.byteLength })
    bytes += content.byteLength
    while (waiting.length > MOST_WAITING || bytes > MOST_WAITING_BYTES) bytes -= waiting.shift()?.bytes ?? 0
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
    newest: async (owner: string, most: number): Promise<FoundTask[]> =>
      (await unlessAway(handover.newest('task', owner, most), [])).map(foundTask),
    /** Resolves when everything is written, or could not be. */
    close: async (): Promise<void> => void (await writing),
  }
}
