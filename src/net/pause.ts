/** Waiting that can be cut short. */
import type { Clock } from './clock.js'

/** Resolves after `ms`, or as soon as the signal goes off. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(Math.max(0, ms), end)
    signal?.addEventListener('abort', end)
    if (signal?.aborted) end()
  })
}
