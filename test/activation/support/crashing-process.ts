/** A whole Tributary that is killed, as by a power cut, when a request reaches a given step. Told by its parent. */
import type { Checkpoint } from '../../../src/activation/delivery.js'
import { openStore } from '../../../src/store/store.js'
import { type AgentId, buyer, soon, startParts } from './parts.js'

export type CrashOrder = {
  url: string
  hosts: Record<string, string>
  urls: Record<AgentId, string>
  request: Record<string, unknown>
  at: Checkpoint
}

process.once('message', async (order: CrashOrder) => {
  const { url, hosts, urls, request, at } = order
  const store = await openStore({ url, now: Date.now, onProblem: () => {} })
  const { activation } = await startParts({
    ...{ store, hosts, urls, agents: ['northwind'], comment: () => {} },
    reached(checkpoint) {
      if (checkpoint === at) process.kill(process.pid, 'SIGKILL')
    },
  })
  await activation.activate(request as never, buyer, soon())
  process.exit(1) // the step was never reached
})
