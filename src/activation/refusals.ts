/** What activation refuses, in the same words wherever it does. */
import { refuse } from '../adcp/answer.js'
import type { Refused } from '../adcp/error.js'

const STORAGE_RETRY_SECONDS = 5

/**
 * A handle or id that is stale, forged or somebody else's: one answer for all, byte for byte
 * (docs/protocol.md#envelope).
 */
export function notFound(field: string): Refused {
  return refuse('REFERENCE_NOT_FOUND', 'What this field names does not exist or is not visible to you.', {
    field,
    suggestion: 'Take handles and ids from a current get_signals, list_tasks or list_accounts answer.',
  })
}

/**
 * There is nothing of the caller's to switch off; what others have on is not told apart from what nobody has
 * (docs/activation.md, "Whose activation it is").
 */
export function notOn(): Refused {
  const message =
    'You have nothing to switch off here: no activation of yours for this signal on these destinations.'
  return refuse('REFERENCE_NOT_FOUND', message, {
    field: 'destinations',
    suggestion: 'See list_tasks and the deployments of get_signals for what is live, and where.',
  })
}

/** The key was used for another request; of that request nothing is told, and the error has no member beyond what it needs. */
export function keyConflict(): Refused {
  const message =
    'This idempotency_key was used for another request: repeat a request unchanged, or use a fresh key.'
  return refuse('IDEMPOTENCY_CONFLICT', message, {})
}

/** The same request is still being worked on, by another process or an earlier connection. */
export function stillRunning(): Refused {
  return refuse('SERVICE_UNAVAILABLE', 'The first request with this key is still being worked on.', {
    retry_after: 1,
    suggestion: 'Repeat the same request with the same idempotency_key.',
  })
}

/** The storage cannot take a write just now; nothing was done that is not written down. */
export function storageDown(): Refused {
  return refuse('SERVICE_UNAVAILABLE', 'This agent cannot store what it does just now.', {
    retry_after: STORAGE_RETRY_SECONDS,
    suggestion: 'Repeat the same request with the same idempotency_key.',
  })
}
