/**
 * What an upstream's answer to report_usage says of the rows that it was sent (schema account/report-usage-response). Rows are
 * accepted by the number that the schema requires, wherever the answer states it, and by nothing else; errors may name those that
 * are not. Of rows that neither decides nobody knows whether they were counted.
 */
import type { Payload } from '../upstreams/agent/agent.js'
import { type AnswerJudge, failuresIn, inside, shownCode, toldFailure } from './upstream-answer.js'

const ROW_FIELD = /^usage\[(\d{1,6})\](?:\.([a-z_]{1,64}))?$/

/** A row that the upstream refused, by its index in the part. */
type RefusedRow = { at: number; field?: string; code?: string }

/** What is kept of the answer; `code`: of an error that names no row. */
export type PartAnswer = { accepted?: number; errors: RefusedRow[]; code?: string }

function readAccepted(payload: Payload): number | undefined {
  for (const { accepted } of inside(payload)) {
    if (typeof accepted === 'number' && Number.isInteger(accepted) && accepted >= 0) return accepted
  }
  return undefined
}

/** Undefined where the error names none of so many rows. */
function readRefused(error: Readonly<Record<string, unknown>>, rows: number): RefusedRow | undefined {
  const match = typeof error.field === 'string' ? ROW_FIELD.exec(error.field) : null
  const at = Number(match?.[1])
  if (!match || at >= rows) return undefined
  const [field, code] = [match[2], shownCode(error.code)]
  return { at, ...(field !== undefined && { field }), ...(code !== undefined && { code }) }
}

/** `rows`: how many the upstream was sent. */
export function readUsage(payload: Payload, rows: number): PartAnswer {
  const refused = new Map<string, RefusedRow>() // an error may be told twice
  let code: string | undefined
  for (const error of failuresIn(payload)) {
    const row = readRefused(error, rows)
    if (row) refused.set(`${row.at}.${row.field ?? ''}`, row)
    else code ??= shownCode(error.code)
  }
  const accepted = readAccepted(payload)
  return {
    ...(accepted !== undefined && { accepted: Math.min(accepted, rows) }),
    errors: [...refused.values()],
    ...(code !== undefined && { code }),
  }
}

/** Some rows may be accepted and others not, so an error alone is a failure only where it names no row. */
export function usageJudge(rows: number): AnswerJudge {
  return {
    showsDone: (payload) => (readUsage(payload, rows).accepted ?? 0) > 0,
    failureIn(payload) {
      const { accepted, errors } = readUsage(payload, rows)
      return accepted === undefined && errors.length === 0 ? toldFailure(payload) : undefined
    },
    goesOn: () => false, // the schema knows no task
  }
}
