/** What an agent said, without the credential that it was shown: errors echo what they refuse, and are stored and told. */
import { redacted, redactedValue, searchable, secretsInUrl } from '../../adcp/redaction.js'
import type { AgentOutcome, Auth } from './agent.js'

/** What a place at `url` is shown of ours that is nobody else's to know, in headers of these values and in the url. */
export function secretsShown(values: readonly string[], url: string): string[] {
  const parts = values.flatMap((value) => [value, ...value.split(/\s+/)]) // `Basic abc`: either may come back
  return searchable([...parts, ...secretsInUrl(url)])
}

/** The same of an agent. */
export function secretsOf(auth: Auth, url: string): string[] {
  return secretsShown(auth.type === 'bearer' ? [auth.token] : auth.type === 'header' ? [auth.value] : [], url)
}

/** The outcome with secrets taken out of the words in it. Answers are read by their fields and hold rows, not words. */
export function withoutSecrets(outcome: AgentOutcome, secrets: readonly string[]): AgentOutcome {
  if (outcome.kind === 'failed') return { ...outcome, message: redacted(outcome.message, secrets) }
  if (outcome.kind === 'answer') return outcome
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
