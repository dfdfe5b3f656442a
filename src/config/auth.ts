/** A credential that is sent to an upstream. */
import type { Auth } from '../upstreams/agent/agent.js'
import type { AuthEntry } from './schema.js'

/** Undefined for `type: none`. */
export function toAuth(entry: AuthEntry | undefined): Auth | undefined {
  if (entry?.type === 'bearer') return { type: 'bearer', token: entry.token ?? '' }
  if (entry?.type === 'header') return { type: 'header', name: entry.name ?? '', value: entry.value ?? '' }
  return undefined
}
