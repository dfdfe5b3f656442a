/**
 * What an agent said, without the credential that it was sent: errors repeat what they refuse, and errors are stored
 * and shown.
 */
import { redacted, redactedValue, searchable, secretsInUrl } from '../../adcp/redaction.js'
import type { AgentOutcome, Auth } from './agent.js'

/** The secrets that are sent to `url`: in headers with these values, and in the url itself. */
export function secretsShown(values: readonly string[], url: string): string[] {
  const parts = values.flatMap((value) => [value, ...value.split(/\s+/)]) // `Basic abc`: an error may repeat either
  return searchable([...parts, ...secretsInUrl(url)])
}

/** The same of an agent. */
export function secretsOf(auth: Auth, url: string): string[] {
  return secretsShown(auth.type === 'bearer' ? [auth.token] : auth.type === 'header' ? [auth.value] : [], url)
}

/** The outcome with secrets removed from its texts: of an answer, from the errors that it lists in addition to its rows. */
export function withoutSecrets(outcome: AgentOutcome, secrets: readonly string[]): AgentOutcome {
  if (outcome.kind === 'failed') return { ...outcome, message: redacted(outcome.message, secrets) }
  if (outcome.kind === 'answer') {
    const { errors } = outcome.payload
    if (errors === undefined) return outcome
    return { ...outcome, payload: { ...outcome.payload, errors: redactedValue(errors, secrets) } }
  }
  const { message, code, field, details } = outcome.error
  return {
    kind: 'error',
    error: {
      ...outcome.error,
      code: redacted(code, secrets),
      message: redacted(message, secrets),
      ...(field !== undefined && { field: redacted(field, secrets) }),
      ...(details && { details: redactedValue(details, secrets) as Record<string, unknown> }),
    },
  }
}
