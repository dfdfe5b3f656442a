/** What was learnt of each agent outlives the process: a blob an agent, written when something new is learnt. */
import { decodeLearnt, encodeLearnt, type Learnt } from '../agent/learnt.js'
import type { Blobs } from '../blobs.js'

const PREFIX = 'dialect/'

export type LearntStoreOptions = {
  blobs: Blobs
  /** Told in words of what could not be written; the agent is asked again after a restart. */
  onTrouble(message: string): void
}

export function createLearntStore({ blobs, onTrouble }: LearntStoreOptions) {
  let last: Promise<void> = Promise.resolve() // one write at a time: they are small and seldom

  function enqueue(agentUrl: string, task: () => Promise<void>): void {
    last = last
      .then(task)
      .catch((error: Error) =>
        onTrouble(`what was learnt of ${agentUrl} could not be saved: ${error.message}`),
      )
  }

  return {
    async load(agentUrl: string): Promise<Learnt | undefined> {
      const [bytes] = (await blobs.read(`${PREFIX}${agentUrl}`)) ?? []
      return bytes && decodeLearnt(bytes)
    },
    save(agentUrl: string, learnt: Learnt): void {
      enqueue(agentUrl, () => blobs.write(`${PREFIX}${agentUrl}`, [encodeLearnt(learnt)]))
    },
    /** Forgets agents that nobody lists any more. */
    async sweep(isKnown: (agentUrl: string) => boolean): Promise<void> {
      for (const name of await blobs.list(PREFIX)) {
        const agentUrl = name.slice(PREFIX.length)
        if (!isKnown(agentUrl)) enqueue(agentUrl, () => blobs.remove(name))
      }
    },
    close: (): Promise<void> => last,
  }
}

export type LearntStore = ReturnType<typeof createLearntStore>
