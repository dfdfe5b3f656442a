/** A credential that is sent to an upstream. */
import type { AuthEntry } from './schema.js'

export type Auth = { type: 'bearer'; token: string } | { type: 'header'; name: string; value: string }

/** Undefined for `type: none`. */
export function toAuth(entry: AuthEntry | undefined): Auth | undefined {
  if (entry?.type === 'bearer') return { type: 'bearer', token: entry.token ?? '' }
  if (entry?.type === 'header') return { type: 'header', name: entry.name ?? '', value: entry.value ?? '' }
  return undefined
}
