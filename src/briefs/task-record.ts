/**
 * What must survive of a question that is answered later, one durable record a task: the question and for whom, and
 * once it is answered the notification that is still to be delivered.
 */
import type { GetSignalsRequest } from '../adcp/requests/get-signals.js'
import type { PushConfig } from '../events/push-config.js'
import type { Reader } from '../feed/query.js'
import type { Blobs } from '../upstreams/blobs.js'

const PREFIX = 'discovery/'

export type TaskRecord = {
  id: string
  input: GetSignalsRequest
  reader: Reader
  contextId: string
  createdAt: number
  push?: PushConfig
  /** Upstream -> its own task. */
  upstreamTasks: Readonly<Record<string, string>>
  /** The notification, once there is something to notify of. Its bytes never change. */
  notice?: { body: string; attempts: number; since: number; nextAt: number }
}

export function createTaskRecords(blobs: Blobs) {
  const name = (id: string) => PREFIX + id

  /** Undefined when there is none, or it is not one that this version wrote. */
  async function read(id: string): Promise<TaskRecord | undefined> {
    const parts = await blobs.read(name(id))
    if (!parts) return undefined
    try {
      return JSON.parse(Buffer.concat(parts).toString()) as TaskRecord
    } catch {
      return undefined // blobs are checked against damage: what does not parse was not written here
    }
  }

  return {
    read,
    write: (record: TaskRecord) => blobs.write(name(record.id), [Buffer.from(JSON.stringify(record))]),
    remove: (id: string) => blobs.remove(name(id)),
    ids: async () => (await blobs.list(PREFIX)).map((found) => found.slice(PREFIX.length)),
  }
}

export type TaskRecords = ReturnType<typeof createTaskRecords>
