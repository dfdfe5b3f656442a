/** Waiting for what somebody else began: no longer than one's own budget, whatever budget that has. */
import { type Budget, type CallFailure, callFailed } from './agent.js'

/** What `pending` comes to, or the failure when time or patience ends first. `pending` goes on. */
export function within<T>(pending: Promise<T>, { timeoutMs, signal }: Budget): Promise<T | CallFailure> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => settle(callFailed('timeout', 'the agent was still opening')), timeoutMs)
    const onAbort = () => settle(callFailed('aborted', 'the caller gave up'))
    const release = () => {
      clearTimeout(late)
      signal?.removeEventListener('abort', onAbort)
    }
    function settle(outcome: T | CallFailure) {
      release()
      resolve(outcome)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted) onAbort()
    pending.then(settle, (error) => {
      release()
      reject(error)
    })
  })
}
