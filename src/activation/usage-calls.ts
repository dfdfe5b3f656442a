/** What a call to an upstream's report_usage means here: how many of its rows were accepted, and which were not. */
import { type AdcpError, adcpError } from '../adcp/error.js'
import type { CallKind, Delivered } from './delivery.js'

/** What is kept of an upstream's answer; `errors` are by the row's place in the part. */
type PartAnswer = { accepted: number; errors: { at: number; field?: string; code: string }[] }

const RETRY_SECONDS = 10
const ROW_FIELD = /^usage\[(\d{1,6})\](?:\.([a-z_]{1,64}))?$/

/** The rows an upstream refused, where it says which. */
function readErrors(errors: unknown): PartAnswer['errors'] {
  if (!Array.isArray(errors)) return []
  return errors.flatMap((error: unknown) => {
    const { code, field, severity } = (error ?? {}) as Record<string, unknown>
    const match = typeof field === 'string' ? ROW_FIELD.exec(field) : null
    if (!match || severity === 'warning') return []
    const known = typeof code === 'string' && /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? code : 'UNSPECIFIED'
    return [{ at: Number(match[1]), ...(match[2] !== undefined && { field: match[2] }), code: known }]
  })
}

/** What a call to report_usage means. Parts do not bear on each other, so none supersedes another. */
export const usageCalls: CallKind = {
  errorsRefuse: false, // partial acceptance is an answer
  undoes: () => false,
  digest(call, understood): PartAnswer {
    // `submitted` is not in the schema of report_usage: the upstream has the rows.
    const { accepted, errors } =
      understood.kind === 'done' ? understood.payload : { accepted: undefined, errors: [] }
    const refused = readErrors(errors).filter(({ at }) => at < call.rows.length)
    const most = call.rows.length - new Set(refused.map(({ at }) => at)).size
    const told = typeof accepted === 'number' && Number.isInteger(accepted) && accepted >= 0 ? accepted : most
    return { accepted: Math.min(told, call.rows.length), errors: refused }
  },
  settled: async () => {}, // the call itself is the record
}

/** A row, or a member of it, as `error.field` names it. */
export function rowField(row: number, field?: string): string {
  return field === undefined ? `usage[${row}]` : `usage[${row}].${field}`
}

/** Why none of a part's rows counts as accepted. */
function partError({ call, retryAfter = RETRY_SECONDS }: Delivered): AdcpError {
  if (call.state === 'refused') return call.answer as AdcpError
  const details = { upstream: call.upstream }
  if (call.state !== 'open') {
    const message = 'The upstream never answered, and whether it counted the row is not known.'
    return adcpError('INVALID_REQUEST', message, { details })
  }
  return adcpError('SERVICE_UNAVAILABLE', 'The upstream that sold this signal did not answer.', {
    retry_after: retryAfter,
    suggestion:
      'Repeat the whole request with the same idempotency_key: what was counted is not counted twice.',
    details,
  })
}

/** What became of one part's rows; `open` when the same request may still learn more. */
export function partOutcome(delivered: Delivered): { accepted: number; errors: AdcpError[]; open: boolean } {
  const { call } = delivered
  if (call.state !== 'answered') {
    const error = partError(delivered)
    const errors = call.rows.map((row) => ({ ...error, field: rowField(row) }))
    return { accepted: 0, errors, open: call.state === 'open' }
  }
  const { accepted, errors } = call.answer as PartAnswer
  const told = errors.map(({ at, field, code }) =>
    adcpError('INVALID_REQUEST', 'The upstream that sold this signal refused the row.', {
      field: rowField(call.rows[at] ?? 0, field),
      details: { upstream: call.upstream, upstream_code: code },
    }),
  )
  return { accepted, errors: told, open: false }
}
