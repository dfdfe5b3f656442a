/**
 * How long a call may take, and the signal that its task stops on: its time is over, or its caller hung up
 * (docs/decisions.md#deadlines).
 */
import { createDeadline } from '../../net/deadline.js'
import type { Exchange } from './exchange.js'

/** The longest time_budget is 120 s (docs/protocol.md#envelope); what is left is for merging and writing. */
export const CALL_MS = 130_000

/** Made only when a task asks for it; most answer before anybody could hang up. */
export function hangUpSignal({ response }: Exchange): AbortSignal {
  const gone = new AbortController()
  const deadline = createDeadline({ timeoutMs: CALL_MS, signal: gone.signal })
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
    deadline.release()
  })
  return deadline.signal
}
