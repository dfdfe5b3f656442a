/**
 * The shared-secret schemes that a caller may register instead of signatures. The registration alone decides which of the
 * two is used: never both (schema core/push-notification-config, "Precedence is a switch").
 */
import { createHmac } from 'node:crypto'
import type { PushConfig } from './push-config.js'

/** The headers of one delivery under the scheme that the caller registered. */
export function legacyHeaders(
  { schemes, credentials }: NonNullable<PushConfig['authentication']>,
  body: string,
  nowMs: number,
): Record<string, string> {
  const base = { 'content-type': 'application/json' }
  if (schemes[0] === 'Bearer') return { ...base, authorization: `Bearer ${credentials}` }
  const timestamp = String(Math.floor(nowMs / 1_000))
  const digest = createHmac('sha256', credentials).update(`${timestamp}.${body}`).digest('hex')
  return { ...base, 'x-adcp-timestamp': timestamp, 'x-adcp-signature': `sha256=${digest}` }
}
