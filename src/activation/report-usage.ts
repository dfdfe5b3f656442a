/**
 * report_usage: a caller's rows, split by the upstream that sold each signal, forwarded, and the answers put together
 * (schemas account/report-usage). A part without an answer is told for its rows; the same request again asks only for
 * the parts that are missing, under the same derived keys, so nothing is counted twice.
 */
import type { AccountReference } from '../adcp/account.js'
import { type AdcpError, adcpError } from '../adcp/error.js'
import type { Resolved } from '../feed/lookup.js'
import { signalPart } from '../merge/identity.js'
import type { NewCall } from '../store/calls.js'
import type { Entry } from '../store/ledger.js'
import type { Store } from '../store/store.js'
import { type ActivationAnswer, notFound, refuse } from './answer.js'
import type { CallKind, Delivered } from './delivery.js'
import type { Conclusion, Once, Plan } from './once.js'
import { findOwnAccount, type Principal } from './principal.js'
import { fingerprint, upstreamKey } from './request-identity.js'

const HISTORY = 1_000

export type UsageRow = {
  account: AccountReference
  signal_agent_segment_id?: string
  pricing_option_id?: string
} & Record<string, unknown>

export type ReportUsageRequest = {
  idempotency_key: string
  reporting_period: { start: string; end: string }
  usage: readonly UsageRow[]
}

export type ReportUsageOptions = {
  store: Store
  once: Once
  newId: () => string
  resolve: (handle: string, caller: string, accountId?: string) => Resolved | undefined
}

/** What is kept of an upstream's answer; `errors` are by the row's place in the part. */
type PartAnswer = { accepted: number; errors: { at: number; field?: string; code: string }[] }

type Sold = { upstream: string; segmentId: string; upstreamOptionId?: string }
type Row = { row: number; to: Sold; args: Record<string, unknown> }
type RowError = AdcpError

const ROW_FIELD = /^usage\[(\d{1,6})\](?:\.([a-z_]{1,64}))?$/

function rowField(row: number, field?: string): string {
  return field === undefined ? `usage[${row}]` : `usage[${row}].${field}`
}

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

/** The one upstream that sold what the row reports, from the ledger first: a signal may have left the feed. */
function soldBy(
  row: UsageRow,
  history: readonly Entry[],
  signal: Resolved | undefined,
): Sold | 'ambiguous' | undefined {
  const { signal_agent_segment_id: handle = '', pricing_option_id: optionId } = row
  const sold = new Map<string, Sold>()
  for (const entry of history) {
    if (entry.action !== 'activate' || entry.outcome === 'failed') continue
    if (handle !== entry.signalHandle && handle !== entry.offerHandle) continue
    if (optionId !== undefined && entry.pricingOptionId !== optionId) continue
    const { upstream, segmentId, upstreamOptionId } = entry
    sold.set(entry.offerHandle, { upstream, segmentId, ...(optionId !== undefined && { upstreamOptionId }) })
  }
  if (sold.size === 0 && signal) {
    for (const offer of signal.offers) {
      if (handle !== signal.handle && handle !== offer.handle) continue
      const found = offer.options.find(({ option }) => option.pricing_option_id === optionId)
      if (optionId !== undefined && !found) continue
      const { upstream, segmentId } = offer
      sold.set(offer.handle, { upstream, segmentId, ...(found && { upstreamOptionId: found.upstreamId }) })
    }
  }
  const [first, another] = [...sold.values()]
  return another ? 'ambiguous' : first
}

function upstreamRow(
  row: UsageRow,
  to: Sold,
  account: AccountReference | undefined,
): Record<string, unknown> {
  const { account: _, signal_agent_segment_id: __, pricing_option_id: ___, ...figures } = row
  return {
    ...(account && { account }),
    ...figures,
    signal_agent_segment_id: to.segmentId,
    ...(to.upstreamOptionId !== undefined && { pricing_option_id: to.upstreamOptionId }),
  }
}

export function createReportUsage({ store, once, newId, resolve }: ReportUsageOptions) {
  async function place(row: number, usage: UsageRow, principal: Principal): Promise<Row | RowError> {
    const { signal_agent_segment_id: handle } = usage
    if (handle === undefined) {
      return adcpError('INVALID_REQUEST', 'signal_agent_segment_id is required: this is a signals agent.', {
        field: rowField(row, 'signal_agent_segment_id'),
      })
    }
    const found = await findOwnAccount(principal, usage.account, store.accounts, rowField(row, 'account'))
    if (found.kind === 'refused') return found.error
    const history = await store.ledger.query({ caller: principal.id, handle: signalPart(handle) }, HISTORY)
    const to = soldBy(usage, history, resolve(handle, principal.id, found.account.id))
    if (to === 'ambiguous') {
      return adcpError(
        'INVALID_REQUEST',
        'Several upstreams sold this signal: name the one that this row is for.',
        {
          field: rowField(row, 'pricing_option_id'),
          suggestion: 'Send the pricing_option_id of the activation, or the handle of one offer.',
        },
      )
    }
    if (!to) return notFound(rowField(row, 'signal_agent_segment_id')).error
    return { row, to, args: upstreamRow(usage, to, found.account.at(to.upstream)) }
  }

  function partsOf(
    rows: readonly Row[],
    request: ReportUsageRequest,
    principal: Principal,
    print: string,
  ): NewCall[] {
    const byUpstream = new Map<string, Row[]>()
    for (const row of rows) byUpstream.set(row.to.upstream, [...(byUpstream.get(row.to.upstream) ?? []), row])
    const { idempotency_key: key, reporting_period } = request
    return [...byUpstream].map(([upstream, part]) => ({
      ...{ id: newId(), caller: principal.id, key, task: 'report_usage', upstream, target: '' },
      upstreamKey: upstreamKey(principal.id, key, print, upstream),
      args: { reporting_period, usage: part.map(({ args }) => args) },
      rows: part.map(({ row }) => row),
    }))
  }

  /** What became of one part's rows. */
  function outcomeOf({ call, retryAfter }: Delivered): {
    accepted: number
    errors: AdcpError[]
    open: boolean
  } {
    if (call.state === 'answered') {
      const { accepted, errors } = call.answer as PartAnswer
      const told = errors.map(({ at, field, code }) =>
        adcpError('INVALID_REQUEST', 'The upstream that sold this signal refused the row.', {
          field: rowField(call.rows[at] ?? 0, field),
          details: { upstream: call.upstream, upstream_code: code },
        }),
      )
      return { accepted, errors: told, open: false }
    }
    const error =
      call.state === 'refused'
        ? (call.answer as AdcpError)
        : adcpError('SERVICE_UNAVAILABLE', 'The upstream that sold this signal did not answer.', {
            retry_after: retryAfter ?? 10,
            suggestion:
              'Repeat the whole request with the same idempotency_key: what was counted is not counted twice.',
            details: { upstream: call.upstream },
          })
    const errors = call.rows.map((row) => ({ ...error, field: rowField(row) }))
    return { accepted: 0, errors, open: call.state === 'open' }
  }

  function said(accepted: number, rows: number, errors: readonly AdcpError[]): ActivationAnswer {
    const message = `${accepted} of ${rows} usage rows were accepted.`
    return { kind: 'answer', message, fields: { accepted, ...(errors.length > 0 && { errors }) } }
  }

  /** `deadline` in ms since the epoch. Never rejects for a caller's mistake or a storage that cannot serve. */
  async function reportUsage(
    request: ReportUsageRequest,
    principal: Principal,
    deadline: number,
  ): Promise<ActivationAnswer> {
    const print = fingerprint(request)
    const count = request.usage.length
    const keyed = {
      caller: principal.id,
      key: request.idempotency_key,
      task: 'report_usage',
      fingerprint: print,
    }

    async function placed(skip: ReadonlySet<number>): Promise<{ rows: Row[]; errors: RowError[] }> {
      const rows: Row[] = []
      const errors: RowError[] = []
      for (const [row, usage] of request.usage.entries()) {
        if (skip.has(row)) continue
        const place_ = await place(row, usage, principal)
        if ('code' in place_) errors.push(place_)
        else rows.push(place_)
      }
      return { rows, errors }
    }

    async function plan(): Promise<Plan | ActivationAnswer> {
      if (Date.parse(request.reporting_period.start) > Date.parse(request.reporting_period.end)) {
        const message = 'reporting_period.start must not be after reporting_period.end.'
        return refuse('INVALID_REQUEST', message, { field: 'reporting_period.start' })
      }
      const { rows, errors } = await placed(new Set())
      if (rows.length === 0) return said(0, count, errors)
      return { kind: 'plan', calls: partsOf(rows, request, principal, print), record: async () => {} }
    }

    async function conclude(delivered: readonly Delivered[]): Promise<Conclusion> {
      const outcomes = delivered.map(outcomeOf)
      const sent = new Set(delivered.flatMap(({ call }) => call.rows))
      // Rows that were in no part; one that could be sent by now is for a request of its own.
      const { rows, errors } = await placed(sent)
      const late = rows.map(({ row }) => notFound(rowField(row, 'signal_agent_segment_id')).error)
      const accepted = outcomes.reduce((sum, outcome) => sum + outcome.accepted, 0)
      const all = [...errors, ...late, ...outcomes.flatMap((outcome) => outcome.errors)]
      const answer = { accepted, errors: all }
      return outcomes.some(({ open }) => open)
        ? { kind: 'open', said: said(accepted, count, all) }
        : { kind: 'final', answer }
    }

    function render(answer: unknown, replayed: boolean): ActivationAnswer {
      const { accepted, errors } = answer as { accepted: number; errors: AdcpError[] }
      return { ...said(accepted, count, errors), ...(replayed && { replayed }) }
    }

    return await once(keyed, { plan, conclude, render }, deadline)
  }

  return reportUsage
}
