/**
 * Which upstream a caller's `accounts` and `credentials` mean. A name is bound to one canonical url when the
 * configuration is read, so that no agent that appears later can take it (docs/decisions.md#identity).
 */
import { nearest } from '../adcp/nearest.js'
import { agentUrlOf } from '../adcp/url.js'
import type { ConfigFile } from './schema.js'

export type UpstreamNames = {
  /** The canonical url that is meant; undefined when the name is neither a configured upstream's id nor a url. */
  agentUrl(name: string): string | undefined
  /** What was probably meant, nearest first. */
  near(name: string): string[]
}

/** A url without its scheme, as somebody who names a host would write it. */
function bare(url: string): string {
  return url.replace(/^https?:\/\//, '')
}

export function upstreamNames(upstreams: ConfigFile['upstreams'] = []): UpstreamNames {
  const byId = new Map(upstreams.flatMap(({ id, url }) => (id === undefined ? [] : [[id, url] as const])))
  const spoken = new Map(upstreams.map(({ id, url }) => [id ?? bare(url), id ?? url]))
  return {
    agentUrl: (name) => agentUrlOf(byId.get(name) ?? name),
    near: (name) => nearest(name, spoken.keys()).map((word) => spoken.get(word) ?? word),
  }
}
