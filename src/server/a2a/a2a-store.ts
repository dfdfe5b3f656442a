/** The kept tasks as the official handlers read them. What they would write is kept already. */
import { Task as A2aTask } from '@a2a-js/sdk'
import { InMemoryTaskStore, type ServerCallContext, type TaskStore } from '@a2a-js/sdk/server'
import { taskState } from './a2a-content.js'
import type { FoundTask } from './a2a-shared.js'
import type { A2aTasks } from './a2a-tasks.js'

function taskOf({ id, content, at }: FoundTask): A2aTask {
  const { contextId, text, metadata, data } = content
  const status = { state: taskState(content, '1.0'), timestamp: new Date(at).toISOString() }
  const parts = [{ data: JSON.parse(data) as unknown }, { text }]
  const artifact = { artifactId: `${id}-result`, name: 'result', parts, ...(metadata && { metadata }) }
  return A2aTask.fromJSON({ id, contextId, status, artifacts: [artifact] })
}

const ownerOf = (context: ServerCallContext) => context.user?.userName ?? ''

export function createTaskStore({ known, newest }: Pick<A2aTasks, 'known' | 'newest'>): TaskStore {
  return {
    async load(id, context) {
      const found = await known(ownerOf(context), id)
      return found && taskOf(found)
    },
    async list(params, context) {
      // Filters and page tokens are the library's; it sees the owner's tasks for one listing and is dropped.
      const listing = new InMemoryTaskStore()
      for (const found of await newest(ownerOf(context))) await listing.save(taskOf(found), context)
      return listing.list(params, context)
    },
    async save() {
      // Every task is kept in its terminal state; the official handlers have nothing to add to it.
    },
  }
}
