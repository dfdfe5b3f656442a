/**
 * Follows the configuration file (docs/configuration.md): read again when it changes and when asked. A file with an
 * error leaves the running configuration as it is and says so until it is mended.
 */

import { unwatchFile, watchFile } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { loadConfig } from '../../config/load.js'
import { ConfigError } from '../../config/problem.js'
import type { Config } from '../../config/values.js'
import { pause, systemClock } from '../../net/clock.js'
import type { RunningConfiguration } from '../../server/health.js'

const LOOK_EVERY_MS = 1_000 // looks at times and size, which works for editors that rename and for mounted links
const STILL_MS = 100 // a file that has not changed for so long is complete
const MOST_LOOKS = 50 // does not wait for a file that never stops changing

type ReloadOptions = {
  /** The configuration that runs now. */
  config: Config
  environment: Readonly<Record<string, string | undefined>>
  /** Makes it the running one; gives the settings that only a restart can change. Throws when it cannot. */
  apply: (config: Config) => readonly string[]
  /** Nothing is applied before it resolves. */
  started: Promise<void>
  log: Logger
  /** Waits so long, ms. */
  pause?: (ms: number) => Promise<unknown>
}

const still = (ms: number) => pause(systemClock, ms)

/** Resolves when the file has stopped changing. A file that is written in place is empty first, then incomplete. */
async function written(file: string, wait: (ms: number) => Promise<unknown>): Promise<void> {
  const look = () => stat(file).then(({ mtimeMs, size }) => `${mtimeMs} ${size}`, String)
  let seen = await look()
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    await wait(STILL_MS)
    const now = await look()
    if (now === seen) return
    seen = now
  }
}

export function createReload({
  config,
  environment,
  apply,
  started,
  log,
  pause: wait = still,
}: ReloadOptions) {
  const { file } = config
  let state: RunningConfiguration = { revision: config.revision, file_revision: config.revision }
  let turn = started
  let isClosed = false

  async function read(): Promise<void> {
    let revision: string | undefined
    try {
      await written(file, wait)
      const next = await loadConfig(file, environment)
      revision = next.revision
      if (isClosed) return // whoever would apply it is ending
      const isSame = revision === state.revision
      const restart = isSame ? [] : apply(next)
      state = { revision, file_revision: revision }
      if (isSame) return
      log.info({ revision }, 'configuration applied')
      if (restart.length > 0) log.warn({ restart }, 'these settings change at the next start only')
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      if (error instanceof ConfigError) revision = error.revision
      state = {
        revision: state.revision,
        ...(revision !== undefined && { file_revision: revision }),
        problem,
      }
      log.error({ problem, revision: state.revision }, 'the configuration is not applied; the last one stays')
    }
  }

  /** Resolves when the file has been read and applied, or its problem noted. Never rejects. */
  function reload(): Promise<void> {
    turn = turn.then(read)
    return turn
  }

  const look = () => void reload()
  watchFile(file, { interval: LOOK_EVERY_MS, persistent: false }, look)

  return {
    state: () => state,
    reload,
    /** Nothing is applied any more. */
    close(): void {
      isClosed = true
      unwatchFile(file, look)
    },
  }
}
