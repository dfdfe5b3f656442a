/**
 * The configuration that runs: the file as it was last read, and what an operator changed since, which holds until the file
 * is read again or the process ends. Parts take a change up in one synchronous step: who builds sees the world before it or
 * after it. The file is followed (docs/configuration.md): read again when it changes and when asked. One with an error
 * leaves the running configuration as it is and says so until it is mended.
 */
import { unwatchFile, watchFile } from 'node:fs'
import type { Logger } from 'pino'
import { configuredAgentUrl } from '../adcp/url.js'
import { ConfigError, configText } from '../config/load.js'
import { configIn } from '../config/reader.js'
import type { Config } from '../config/values.js'
import { type Clock, pause } from '../net/clock.js'
import type { RunningConfiguration } from '../server/monitoring.js'

const LOOK_EVERY_MS = 1_000 // looks at times and size, which works for editors that rename and for mounted links
const STILL_MS = 100 // a file that has not changed for so long is complete
const MOST_LOOKS = 50 // does not wait for a file that never stops changing

/** What an operator changed: upstreams that are excluded or admitted, callers that are suspended. */
export type Overrides = {
  /** Canonical url -> whether it is left out. */
  readonly excluded: ReadonlyMap<string, boolean>
  /** Ids of callers. */
  readonly suspended: ReadonlySet<string>
}

const NO_OVERRIDES: Overrides = { excluded: new Map(), suspended: new Set() }

function overridden(config: Config, { excluded, suspended }: Overrides): Config {
  const written = new Set(config.upstreams.map(({ url }) => configuredAgentUrl(url)))
  const listed = [...excluded].filter(([agentUrl]) => !written.has(agentUrl))
  const upstreams = [
    ...config.upstreams.map((entry) => ({
      ...entry,
      exclude: excluded.get(configuredAgentUrl(entry.url) ?? '') ?? entry.exclude,
    })),
    ...listed.map(([url, exclude]) => ({
      ...{ url, exclude, id: undefined, protocol: undefined, auth: undefined, seeds: [] },
      accountPrices: 'withheld' as const,
      asListed: true,
    })),
  ]
  const keys = config.callers.keys.filter(({ id }) => !suspended.has(id))
  return { ...config, upstreams, callers: { ...config.callers, keys } }
}

/** `first`: the file as the process found it at its start. */
export function createInForce(first: Config) {
  let file = first
  let overrides = NO_OVERRIDES
  const parts: ((inForce: Config) => void)[] = []
  const listeners: (() => void)[] = []

  function put(config: Config, changed: Overrides): void {
    const inForce = overridden(config, changed)
    file = config
    overrides = changed
    for (const takeUp of parts) takeUp(inForce)
  }

  function change(config: Config, changed: Overrides): void {
    const before = [file, overrides] as const
    try {
      put(config, changed)
    } catch (error) {
      put(...before)
      throw error
    }
    for (const tell of listeners) tell()
  }

  return {
    /** The file as it was last read. */
    file: () => file,
    overrides: () => overrides,
    /** `takeUp` is called with each configuration that is to be in force. It throws when that one contradicts itself. */
    onChange(takeUp: (inForce: Config) => void): void {
      parts.push(takeUp)
    },
    /** Called when every part has taken a change up. */
    onChanged(tell: () => void): void {
      listeners.push(tell)
    },
    /**
     * The file was read again: what operators changed ends, whatever the file says. Throws what a part throws; then nothing has
     * changed.
     */
    read(config: Config): void {
      const isInForce = config.revision === file.revision && overrides === NO_OVERRIDES
      if (!isInForce) change(config, NO_OVERRIDES)
    },
    /** Throws what a part throws; then nothing has changed. */
    override: (changed: Overrides): void => change(file, changed),
  }
}

export type InForce = ReturnType<typeof createInForce>

type ReloadOptions = {
  /** The configuration that runs now. */
  config: Config
  /** Its file, from before it was read. */
  followed: ReturnType<typeof followFile>
  environment: Readonly<Record<string, string | undefined>>
  /**
   * Makes it the running one, also where it says what it said before; gives the settings that only a restart can change. Throws when
   * it cannot.
   */
  apply: (config: Config) => readonly string[]
  /** Nothing is applied before it resolves. */
  started: Promise<void>
  clock: Clock
  log: Logger
}

/**
 * What stands in the file once that has stopped changing: one that is written in place is empty first, then incomplete. Throws
 * `ConfigError` when it cannot be read. The text that stood still is the one to use: read once more, the file could be half of
 * the next one.
 */
async function writtenText(file: string, clock: Clock): Promise<string> {
  const look = () =>
    configText(file).then(
      (text) => ({ text, error: undefined }),
      (error: Error) => ({ text: error.message, error }),
    )
  let seen = await look()
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    await pause(clock, STILL_MS)
    const { text } = seen
    seen = await look()
    if (seen.text === text) break
  }
  if (seen.error) throw seen.error
  return seen.text
}

/** Looks at a file from now on: one that changes while it is read for the first time, or before that is served, has changed. */
export function followFile(file: string) {
  let hasChanged = false
  let tell = () => {
    hasChanged = true
  }
  const look = () => tell() // the listener changes
  watchFile(file, { interval: LOOK_EVERY_MS, persistent: false }, look)
  return {
    /** Somebody says that it has changed. */
    look,
    /** Called when it has changed, at once if it has already. */
    onChange(listener: () => void): void {
      tell = listener
      if (hasChanged) listener()
    },
    close: () => unwatchFile(file, look),
  }
}

export function createReload(options: ReloadOptions) {
  const { config, followed, environment, apply, started, clock, log } = options
  const { file } = config
  let state: RunningConfiguration = { revision: config.revision, file_revision: config.revision }
  let turn = started
  let next: Promise<void> | undefined // has not begun
  let isClosed = false

  async function read(): Promise<void> {
    let revision: string | undefined
    try {
      const next = await configIn(file, await writtenText(file, clock), environment)
      revision = next.revision
      if (isClosed) return // whoever would apply it is ending
      const restart = apply(next)
      state = { revision, file_revision: revision }
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

  /**
   * Resolves when the file has been read and applied, or its problem noted. Never rejects. Whoever asks before a reading has begun
   * waits for that one.
   */
  function reload(): Promise<void> {
    next ??= turn.then(() => {
      next = undefined
      return read()
    })
    turn = next
    return turn
  }

  followed.onChange(() => void reload())

  return {
    state: () => state,
    reload,
    /** Nothing is applied any more. */
    close(): void {
      isClosed = true
      followed.close()
    },
  }
}
