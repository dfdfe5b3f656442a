/**
 * Follows the configuration file (docs/configuration.md): read again when it changes and when asked. A file with an
 * error leaves the running configuration as it is and says so until it is mended.
 */
import { unwatchFile, watchFile } from 'node:fs'
import type { Logger } from 'pino'
import { loadConfig } from '../config/load.js'
import type { Config } from '../config/values.js'

const LOOK_EVERY_MS = 1_000 // by its times and size: holds for editors that rename and for mounted links alike

export type ReloadOptions = {
  /** The configuration that runs now. */
  config: Config
  environment: Readonly<Record<string, string | undefined>>
  /** Makes it the running one; gives the settings that only a restart can change. Throws when it cannot. */
  apply: (config: Config) => readonly string[]
  /** Nothing is applied before it resolves. */
  started: Promise<void>
  log: Logger
}

export type ReloadState = {
  /** Of the running configuration. */
  revision: string
  /** Why the file as it stands is not the running configuration. */
  problem?: string
}

export function createReload({ config, environment, apply, started, log }: ReloadOptions) {
  const { file } = config
  let state: ReloadState = { revision: config.revision }
  let turn = started

  async function read(): Promise<void> {
    try {
      const next = await loadConfig(file, environment)
      if (next.revision === state.revision) {
        state = { revision: state.revision }
        return
      }
      const restart = apply(next)
      state = { revision: next.revision }
      log.info({ revision: next.revision }, 'configuration applied')
      if (restart.length > 0) log.warn({ restart }, 'these settings change at the next start only')
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      state = { revision: state.revision, problem }
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

  return { state: () => state, reload, close: () => unwatchFile(file, look) }
}
