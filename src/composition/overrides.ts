/**
 * What an operator changed in a running process and the configuration does not say: upstreams that are left out or let in,
 * callers that are suspended. It holds until the configuration is read again or the process ends.
 */
import { agentUrlOf } from '../adcp/url.js'
import type { Config } from '../config/values.js'

export type Overrides = {
  /** Canonical url -> whether it is left out. */
  readonly excluded: ReadonlyMap<string, boolean>
  /** Ids of callers. */
  readonly suspended: ReadonlySet<string>
}

export const NO_OVERRIDES: Overrides = { excluded: new Map(), suspended: new Set() }

/** The configuration as it is in force. */
export function overridden(config: Config, { excluded, suspended }: Overrides): Config {
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
