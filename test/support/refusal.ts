/** What every refusal owes its caller (docs/errors): the field that is meant, what was expected, and what to send instead. */
import type { AdcpError } from '../../src/adcp/answer.js'

const BLAMING = new Set([
  'INVALID_REQUEST',
  'REFERENCE_NOT_FOUND',
  'ACCOUNT_NOT_FOUND',
  'VERSION_UNSUPPORTED',
])
const EMPTY_WORDS = /must match|does not have the form|none of the shapes|another value|undefined|\[object/

/** What an error or a row's error lacks; undefined when nothing. A request that is no object has no field to name. */
export function lackOf(error: Omit<AdcpError, 'code'> & { code: string }): string | undefined {
  const { code, field, suggestion = '', message, issues } = error
  if (code === 'IDEMPOTENCY_CONFLICT')
    return field === undefined && suggestion === '' ? undefined : 'has members beyond what it needs'
  if (suggestion.length < 8) return 'has no suggestion'
  if (EMPTY_WORDS.test(`${message} ${suggestion}`)) return 'says nothing that a person knows'
  if (BLAMING.has(code) && field === undefined && issues?.[0]?.pointer !== '') return 'names no field'
  return undefined
}
