/**
 * report_usage: splits a caller's rows by the upstream that sold each signal, forwards them, and combines the answers
 * (schemas account/report-usage). The rows of a part without an answer are reported as open; the same request again
 * sends only the missing parts, under the same derived keys, so nothing is counted twice.
 */
import { findOwnAccount } from '../activation/accounts.js'
import type { Activation, Conclusion, Plan } from '../activation/activation.js'
import { type PartOutcome, partOutcome, rowField } from '../activation/call-kinds.js'
import type { Delivered } from '../activation/delivery.js'
import { type Meaning, notFound } from '../activation/route.js'
import { type AdcpError, type Answer, adcpError, howMany, refuse } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { ReportUsageRequest, ReportUsageResponse } from '../adcp/task-schemas.js'
import { NO_FEED_YET } from '../feed/feed.js'
import { signalPart } from '../merge/identity.js'
import { type NewCall, upstreamKey } from '../store/call.js'
import { type KeyedRequest, keyedRequest } from '../store/records/idempotency.js'
import type { Entry } from '../store/records/ledger.js'
import type { Task } from './task.js'

/** Rows may carry more than the schema lists: it is passed on. */
type UsageRow = ReportUsageRequest['usage'][number]

type SoldOption = {
  upstream: string
  agentUrl: string
  segmentId: string
  upstreamOptionId?: string
}

type Reporting = Pick<
  Activation,
  'store' | 'once' | 'newId' | 'resolve' | 'upstreamAt' | 'hasOwnCredential' | 'hasSharedCredential'
>

type Row = { row: number; to: SoldOption; args: Record<string, unknown> }

/** The one upstream that sold what the row reports, from the ledger first: a signal may have left the feed. */
function soldBy(
  row: UsageRow,
  history: readonly Entry[],
  signal: Meaning,
): SoldOption | 'ambiguous' | 'not_ready' | undefined {
  const { signal_agent_segment_id: handle = '', pricing_option_id: optionId } = row
  const sold = new Map<string, SoldOption>()
  for (const entry of history) {
    if (entry.action !== 'activate' || entry.outcome === 'failed') continue
    if (handle !== entry.signalHandle && handle !== entry.offerHandle) continue
    if (optionId !== undefined && entry.pricingOptionId !== optionId) continue
    const { upstream, agentUrl, segmentId, upstreamOptionId } = entry
    const to = { upstream, agentUrl, segmentId }
    sold.set(entry.offerHandle, { ...to, ...(optionId !== undefined && { upstreamOptionId }) })
  }
  if (sold.size === 0 && signal) {
    if (signal === 'not_ready') return signal
    for (const offer of signal.offers) {
      if (handle !== signal.handle && handle !== offer.handle) continue
      const found = offer.options.find(({ option }) => option.pricing_option_id === optionId)
      if (optionId !== undefined && !found) continue
      const { upstream, agentUrl, segmentId } = offer
      const to = { upstream, agentUrl, segmentId }
      sold.set(offer.handle, { ...to, ...(found && { upstreamOptionId: found.upstreamId }) })
    }
  }
  const [first, another] = [...sold.values()]
  return another ? 'ambiguous' : first
}

/** The row as the upstream gets it: its own ids, and the caller's account as it knows it, if it does. */
function upstreamRow(
  row: UsageRow,
  to: SoldOption,
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

export function reportUsage(activation: Reporting): Task<typeof ReportUsageRequest> {
  const { store, once, newId, resolve, upstreamAt, hasOwnCredential, hasSharedCredential } = activation

  /** `history` gives the caller's ledger for a handle. */
  async function place(
    row: number,
    usage: UsageRow,
    caller: Caller,
    history: (handle: string) => Promise<Entry[]>,
  ): Promise<Row | AdcpError> {
    const { signal_agent_segment_id: handle } = usage
    if (handle === undefined) {
      return adcpError('INVALID_REQUEST', 'signal_agent_segment_id is required: this is a signals agent.', {
        field: rowField(row, 'signal_agent_segment_id'),
        suggestion:
          'Send the signal_agent_segment_id of the activation, as list_tasks or get_signals gave it.',
      })
    }
    const found = await findOwnAccount(caller, usage.account, store.accounts, rowField(row, 'account'))
    if (found.kind === 'refused') return found.error
    const sold = soldBy(
      usage,
      await history(signalPart(handle)),
      await resolve(handle, caller.id, found.account.id),
    )
    if (sold === 'not_ready') return NO_FEED_YET.error
    if (sold === 'ambiguous') {
      return adcpError(
        'INVALID_REQUEST',
        'Several upstreams sold this signal: name the one that this row is for.',
        {
          field: rowField(row, 'pricing_option_id'),
          suggestion: 'Send the pricing_option_id of the activation, or the handle of one offer.',
        },
      )
    }
    if (!sold) return notFound(rowField(row, 'signal_agent_segment_id')).error
    const to = { ...sold, upstream: upstreamAt(sold.agentUrl) }
    return { row, to, args: upstreamRow(usage, to, found.account.at(to.agentUrl)) }
  }

  function partsOf(rows: readonly Row[], request: ReportUsageRequest, keyed: KeyedRequest): NewCall[] {
    const byAgent = new Map<string, Row[]>()
    for (const row of rows) byAgent.set(row.to.agentUrl, [...(byAgent.get(row.to.agentUrl) ?? []), row])
    const { caller, key } = keyed
    const { reporting_period } = request
    return [...byAgent].map(([agentUrl, part]): NewCall => {
      const id = newId()
      return {
        ...{ id, caller, key, task: 'report_usage', agentUrl, upstreamKey: upstreamKey(id) },
        seenAs: hasOwnCredential(caller, agentUrl) ? 'own' : 'shared',
        ...(hasSharedCredential(agentUrl) && { isCredentialed: true }),
        args: { reporting_period, usage: part.map(({ args }) => args) },
        rows: part.map(({ row }) => row),
      }
    })
  }

  function said({ accepted, pending, refused, errors }: PartOutcome): Answer {
    const rows = accepted + pending + refused
    const waits =
      pending > 0 ? `; the upstream of ${howMany(pending, 'row')} is told as soon as it answers` : ''
    const message = `Accepted ${accepted} of ${howMany(rows, 'usage row')}${waits}.`
    const ext = { tributary: { rows: { accepted, pending, refused } } }
    return { kind: 'answer', message, fields: { accepted, ...(errors.length > 0 && { errors }), ext } }
  }

  /** `deadline` in ms since the epoch. Never rejects for a caller's mistake or a storage that cannot serve. */
  async function report(request: ReportUsageRequest, caller: Caller, deadline: number): Promise<Answer> {
    const count = request.usage.length
    const keyed = keyedRequest('report_usage', caller, request)

    async function placed(skip: ReadonlySet<number>): Promise<{ rows: Row[]; errors: AdcpError[] }> {
      const rows: Row[] = []
      const errors: AdcpError[] = []
      const histories = new Map<string, Promise<Entry[]>>() // many rows report one signal
      const history = (handle: string) => {
        const asked = histories.get(handle) ?? store.ledger.history(caller.id, handle)
        histories.set(handle, asked)
        return asked
      }
      for (const [row, usage] of request.usage.entries()) {
        if (skip.has(row)) continue
        const found = await place(row, usage, caller, history)
        if ('code' in found) errors.push(found)
        else rows.push(found)
      }
      return { rows, errors }
    }

    async function plan(): Promise<Plan | Answer> {
      if (Date.parse(request.reporting_period.start) > Date.parse(request.reporting_period.end)) {
        const message = 'reporting_period.start must not be after reporting_period.end.'
        return refuse('INVALID_REQUEST', message, {
          field: 'reporting_period.start',
          suggestion: 'Send the earlier moment as start and the later one as end.',
        })
      }
      const { rows, errors } = await placed(new Set())
      if (errors.includes(NO_FEED_YET.error)) return NO_FEED_YET // a row that is refused now would stay refused under this key
      if (rows.length === 0) return said({ accepted: 0, pending: 0, refused: count, errors })
      return { kind: 'plan', calls: partsOf(rows, request, keyed), entries: [] }
    }

    async function conclude(delivered: readonly Delivered[]): Promise<Conclusion> {
      const outcomes = delivered.map(partOutcome)
      const sent = new Set(delivered.flatMap(({ call }) => call.rows))
      // Rows that are in no part; when they can be sent later, they need a request of their own.
      const { rows, errors } = await placed(sent)
      if (errors.includes(NO_FEED_YET.error)) return { kind: 'open', said: NO_FEED_YET }
      const late = rows.map(({ row }) => notFound(rowField(row, 'signal_agent_segment_id')).error)
      const sum = (of: 'accepted' | 'pending' | 'refused') =>
        outcomes.reduce((total, outcome) => total + outcome[of], 0)
      const answer: PartOutcome = {
        ...{ accepted: sum('accepted'), pending: sum('pending') },
        refused: sum('refused') + errors.length + late.length,
        errors: [...errors, ...late, ...outcomes.flatMap((outcome) => outcome.errors)],
      }
      return answer.pending > 0 ? { kind: 'open', said: said(answer) } : { kind: 'final', answer }
    }

    const render = (answer: unknown, replayed: boolean): Answer => ({
      ...said(answer as PartOutcome),
      ...(replayed && { replayed }),
    })

    return await once(keyed, { plan, conclude, render }, deadline)
  }

  return {
    name: 'report_usage',
    title: 'Report usage',
    description:
      'Reports impressions, spend and cost of activated signals for a period. Each row names its account, the ' +
      "signal's signal_agent_segment_id and the pricing_option_id of its activation; rows go to the upstream that " +
      'sold the signal. Rows that were not accepted stand in errors. After an error with retry_after repeat the whole ' +
      'request with the same idempotency_key: nothing is counted twice.',
    request: ReportUsageRequest,
    response: ReportUsageResponse,
    mutating: true,
    handle: (input, { caller, deadline }) => report(input, caller, deadline),
  }
}
