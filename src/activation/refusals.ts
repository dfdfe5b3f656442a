/** What activation refuses, in the same words wherever it does. */
import { refuse } from '../adcp/answer.js'
import type { Refused } from '../adcp/error.js'

const STORAGE_RETRY_SECONDS = 5

/**
 * One answer, byte for byte, for a handle or id that is stale, forged or another caller's (docs/protocol.md#envelope).
 */
export function notFound(field: string): Refused {
  return refuse('REFERENCE_NOT_FOUND', 'What this field names does not exist or is not visible to you.', {
    field,
    suggestion: 'Take handles and ids from a current get_signals, list_tasks or list_accounts answer.',
  })
}

/**
 * The caller has nothing here to switch off. The answer is the same whether others have it on or nobody has
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

/**
 * The key was used for another request. The answer says nothing about that request, and the error has no optional
 * member.
 */
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

/** The storage cannot be written now; nothing was done without being stored. */
export function storageDown(): Refused {
  return refuse('SERVICE_UNAVAILABLE', 'This agent cannot store what it does just now.', {
    retry_after: STORAGE_RETRY_SECONDS,
    suggestion: 'Repeat the same request with the same idempotency_key.',
  })
}
