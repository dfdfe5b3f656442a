/** A federation whose upstreams can be held back, so that every state of a task can be brought about. */
import { startSandbox } from '../../dist/sandbox/world.js'
import { startTributary } from '../server.js'

const SIGNALS = 480
const HOOKS = ['127.0.0.0/8']

/** `upstreams.hold()` keeps activations and late briefs unfinished; `upstreams.release()` ends them. */
export async function openHeldWorld() {
  let late = 0
  const hold = 3_600_000
  const sandbox = await startSandbox({
    signals: SIGNALS,
    activationDelayMs: hold,
    now: () => Date.now() + late,
  })
  const { hosts, registryUrl } = sandbox
  const server = await startTributary({
    registries: [{ url: registryUrl, refresh: '1m' }],
    egress: { hosts, allow_networks: HOOKS, webhook_networks: HOOKS },
    defaults: { refresh: '5s' },
  })
  return {
    url: server.url,
    /** Everything that was begun is done. */
    release() {
      late += hold
    },
    /** What every agent says of the tasks that it has not finished. */
    unfinishedTasksAre(state) {
      for (const agent of Object.values(sandbox.agents)) agent.unfinishedTasksAre(state)
    },
    meridianNeedsTimeForBriefs(needed) {
      sandbox.agents.meridian.briefTakes(needed ? hold : 0)
    },
    async close() {
      await server.close()
      await sandbox.close()
    },
  }
}
