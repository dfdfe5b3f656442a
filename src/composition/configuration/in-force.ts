/**
 * The configuration in force: the file as it was last read, and what an operator changed since, which holds until the file
 * is read again or the process ends. Parts take a change up in one synchronous step: who builds sees the world before
 * it or after it.
 */
import { agentUrlOf } from '../../adcp/url.js'
import type { Config } from '../../config/values.js'

/** What an operator changed: upstreams that are excluded or admitted, callers that are suspended. */
export type Overrides = {
  /** Canonical url -> whether it is left out. */
  readonly excluded: ReadonlyMap<string, boolean>
  /** Ids of callers. */
  readonly suspended: ReadonlySet<string>
}

const NONE: Overrides = { excluded: new Map(), suspended: new Set() }

function overridden(config: Config, { excluded, suspended }: Overrides): Config {
  const written = new Set(config.upstreams.map(({ url }) => agentUrlOf(url)))
  const listed = [...excluded].filter(([agentUrl]) => !written.has(agentUrl))
  const upstreams = [
    ...config.upstreams.map((entry) => ({
      ...entry,
      exclude: excluded.get(agentUrlOf(entry.url) ?? '') ?? entry.exclude,
    })),
    ...listed.map(([url, exclude]) => ({
      ...{ url, exclude, id: undefined, protocol: undefined, auth: undefined, seeds: [] },
      accountPrices: 'withheld' as const,
    })),
  ]
  const keys = config.callers.keys.filter(({ id }) => !suspended.has(id))
  return { ...config, upstreams, callers: { ...config.callers, keys } }
}

/** `first`: the file as the process found it at its start. */
export function createInForce(first: Config) {
  let file = first
  let overrides = NONE
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
    /** The file was read again: what operators changed ends. Throws what a part throws; then nothing has changed. */
    read: (config: Config): void => change(config, NONE),
    /** Throws what a part throws; then nothing has changed. */
    override: (changed: Overrides): void => change(file, changed),
  }
}

export type InForce = ReturnType<typeof createInForce>
