/** What a call to an upstream's report_usage means here: how many of its rows were accepted, and which were not. */
import { type AdcpError, adcpError } from '../adcp/error.js'
import type { CallKind, Delivered } from './delivery.js'
import { seeCode, shownCode } from './upstream-answer.js'

/** What is kept of an upstream's answer; `errors` are by the row's index in the part. */
type PartAnswer = { accepted: number; errors: { at: number; field?: string; code?: string }[] }

const RETRY_SECONDS = 10
const ROW_FIELD = /^usage\[(\d{1,6})\](?:\.([a-z_]{1,64}))?$/

/** The rows an upstream refused, where it says which. */
function readErrors(errors: unknown): PartAnswer['errors'] {
  if (!Array.isArray(errors)) return []
  return errors.flatMap((error: unknown) => {
    const { code, field, severity } = (error ?? {}) as Record<string, unknown>
    const match = typeof field === 'string' ? ROW_FIELD.exec(field) : null
    if (!match || severity === 'warning') return []
    const shown = shownCode(code)
    return [
      {
        at: Number(match[1]),
        ...(match[2] !== undefined && { field: match[2] }),
        ...(shown !== undefined && { code: shown }),
      },
    ]
  })
}

/** What a call to report_usage means. Parts do not affect each other, so none supersedes another. */
export const usageCalls: CallKind = {
  errorsRefuse: false, // partial acceptance is an answer
  persists: true, // usage must be reported: the upstream gets it when it is back
  undone: () => 'nothing',
  digest(call, done): PartAnswer {
    // `submitted` is not in the schema of report_usage: the upstream has the rows.
    const { accepted, errors } = done?.kind === 'done' ? done.payload : { accepted: undefined, errors: [] }
    const refused = readErrors(errors).filter(({ at }) => at < call.rows.length)
    const most = call.rows.length - new Set(refused.map(({ at }) => at)).size
    const told = typeof accepted === 'number' && Number.isInteger(accepted) && accepted >= 0 ? accepted : most
    return { accepted: Math.min(told, call.rows.length), errors: refused }
  },
  follows: async () => ({}), // the call itself is the record
}

/** A row, or a member of it, as `error.field` names it. */
export function rowField(row: number, field?: string): string {
  return field === undefined ? `usage[${row}]` : `usage[${row}].${field}`
}

/** Why none of a part's rows counts as accepted. */
function partError({ call, retryAfter = RETRY_SECONDS }: Delivered, field: string): AdcpError {
  if (call.state === 'refused') return { ...(call.answer as AdcpError), field }
  const details = { upstream: call.agentUrl }
  if (call.state !== 'open') {
    const message = 'The upstream never answered, and whether it counted the row is not known.'
    const suggestion =
      'Ask whoever runs the upstream; a report under a fresh key may count the row a second time.'
    return adcpError('INVALID_REQUEST', message, { field, details, suggestion })
  }
  return adcpError(
    'SERVICE_UNAVAILABLE',
    'The upstream that sold this signal has not answered yet; this agent goes on telling it.',
    {
      field,
      retry_after: retryAfter,
      suggestion:
        'Repeat the whole request with the same idempotency_key: what was counted is not counted twice.',
      details,
    },
  )
}

export type PartOutcome = {
  /** Counts the rows that the upstream accepted, those that it may still accept, and the others. */
  accepted: number
  pending: number
  refused: number
  errors: AdcpError[]
}

/** The outcome of one part's rows. */
export function partOutcome(delivered: Delivered): PartOutcome {
  const { call } = delivered
  const rows = call.rows.length
  if (call.state !== 'answered') {
    const errors = call.rows.map((row) => partError(delivered, rowField(row)))
    const pending = call.state === 'open' ? rows : 0
    return { accepted: 0, pending, refused: rows - pending, errors }
  }
  const { accepted, errors } = call.answer as PartAnswer
  const told = errors.map(({ at, field, code }) =>
    adcpError('INVALID_REQUEST', 'The upstream that sold this signal refused the row.', {
      field: rowField(call.rows[at] ?? 0, field),
      suggestion: `Mend the row and report it under a new idempotency_key.${seeCode(code)}`,
      details: { upstream: call.agentUrl, ...(code !== undefined && { upstream_code: code }) },
    }),
  )
  return { accepted, pending: 0, refused: rows - accepted, errors: told }
}
