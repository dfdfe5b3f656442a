/**
 * Brief discovery as a task answer: within its time one ranked, paged answer that names what is missing; or
 * `submitted`, when the caller prefers the complete answer later (specification, "Response body", "Errors").
 */

import { howMany } from '../adcp/answer.js'
import { durationMs, durationOf } from '../adcp/duration.js'
import type { AdcpError, AdcpWarning, Refused } from '../adcp/error.js'
import { cursorOf, type GetSignalsRequest } from '../adcp/requests/get-signals.js'
import type { IncompleteEntry } from '../feed/incomplete.js'
import type { Moment } from '../feed/layers.js'
import type { Gap, Reader } from '../feed/query.js'
import { MAX_CHARACTERS } from '../search/wishes.js'
import type { FoundRow } from '../store/records/found.js'
import { type AnswerPages, NOT_READY } from './answer-pages.js'
import type { Brief, Inquiry, Ranked } from './brief.js'
import { briefMessage } from './message.js'
import type { UnderstoodWords } from './ranking/rank.js'
import type { Missing } from './upstream-report.js'

const DEFAULT_BUDGET_MS = 10_000
const MIN_BUDGET_MS = 1_000
const MAX_BUDGET_MS = 120_000 // docs/protocol.md#envelope
/** Reserved for writing the answer, so that it is sent by its deadline. */
const ANSWER_MS = 30

/** Said when the index of the current snapshot is not built yet. */
const UNSEARCHED: Missing = {
  scope: 'signals',
  description: 'The newest state of the feed cannot be searched yet; signals that are new in it are missing.',
  estimated_wait: durationOf(5_000),
}

/** What is known of the request besides its fields, from the server's call context. */
type DiscoverContext = { now: number; deadline: number; signal: AbortSignal; contextId: string }

export type DiscoverAnswer =
  | {
      kind: 'answer'
      status?: 'completed' | 'submitted'
      message: string
      fields: Readonly<Record<string, unknown>>
      rows?: { field: string; parts: readonly Uint8Array[] }
      warnings?: readonly AdcpWarning[]
    }
  | Refused

/** Takes over questions that outlive their request. */
export type Later = {
  /** Undefined when the caller's notification settings are acceptable, or it sent none. */
  refusal(input: GetSignalsRequest, reader: Reader): Promise<AdcpError | undefined>
  /** Returns the task's id once the task is stored. */
  submit(
    inquiry: Inquiry,
    input: GetSignalsRequest,
    reader: Reader,
    contextId: string,
  ): Promise<string | AdcpError>
}

type DiscoverOptions = {
  brief: Brief
  pages: AnswerPages
  /** Remembers rows that upstreams found and the feed lacks; resolves when other processes know them, too. */
  learn(rows: readonly FoundRow[]): Promise<void>
  /** Whether the current feed can be searched; waits for its index until `until` (ms since the epoch) at the latest. */
  searchable(until: number, signal: AbortSignal): Promise<boolean>
  /** What the feed lacks for this reader, apart from what upstreams report themselves. */
  lacks(gaps: readonly Gap[], reader: Reader): readonly IncompleteEntry[]
  /** Absent: no question is answered later. */
  later?: Later
}

const QUESTION_CUT: AdcpWarning = {
  code: 'QUESTION_CUT',
  severity: 'warning',
  field: 'signal_spec',
  message: 'The question says more than is read of one: its first part was answered.',
  suggestion: `Ask in at most ${MAX_CHARACTERS} characters, and name few things that must be or must not be there.`,
}

/** What was read from the words, for machines; undefined when they only name the subject. */
function readAs({ countries, lookbackDays, maxCpm, platforms, ratesAsOf }: UnderstoodWords) {
  const read = {
    ...(countries.length > 0 && { countries }),
    ...(platforms.length > 0 && { platforms }),
    ...(maxCpm && { max_cpm: { ...maxCpm, ...(ratesAsOf && { rates_as_of: ratesAsOf }) } }),
    ...(lookbackDays.length > 0 && { lookback_days: lookbackDays }),
  }
  return Object.keys(read).length > 0 && { read_as: read }
}

/** How long this question may take, ms. */
function budgetMs({ time_budget: asked }: Pick<GetSignalsRequest, 'time_budget'>): number {
  if (!asked) return DEFAULT_BUDGET_MS
  return Math.min(MAX_BUDGET_MS, Math.max(MIN_BUDGET_MS, durationMs(asked)))
}

/** Gives `discover`, the answer of get_signals in brief mode, and `firstPage`, the answer of a question that was ranked. */
export function createDiscover({ brief, pages, learn, searchable, lacks, later }: DiscoverOptions) {
  async function furtherPage(
    cursor: string,
    input: GetSignalsRequest,
    reader: Reader,
    at: Moment | undefined,
  ): Promise<DiscoverAnswer> {
    const page = await pages.further(cursor, input, reader, at)
    if (page.kind === 'refused') return page
    const { count, total, rows, warnings, relevance } = page
    const fields = { ...page.fields, ...(relevance.length > 0 && { ext: { tributary: { relevance } } }) }
    return {
      kind: 'answer',
      message: `${count} of ${howMany(total, 'matching signal')}.`,
      fields,
      rows,
      warnings,
    }
  }

  /** The first page of a ranked answer; `isSearched`: our own search took part in it. */
  async function firstPage(
    ranked: Ranked,
    input: GetSignalsRequest,
    reader: Reader,
    isSearched = true,
  ): Promise<DiscoverAnswer> {
    const { at, corpus, hits, reports, read, relevance: order } = ranked
    await learn(ranked.rows)
    const page = await pages.first(corpus, hits, input, reader, { at, ...(order && { relevance: order }) })
    if (page.kind === 'refused') return page
    const { count, total, fields, rows, relevance, gaps } = page
    const [relevanceOfBest] = relevance
    const missing = [...(isSearched ? [] : [UNSEARCHED]), ...ranked.missing, ...lacks(gaps, reader)]
    const message = briefMessage({
      best: page.first as Parameters<typeof briefMessage>[0]['best'],
      ...{ count, total },
      missing: ranked.missing.length,
      isSearched,
      seesPrices: reader.visibility === 'full',
      ...(relevanceOfBest && { relevance: relevanceOfBest }),
      ...(read && { read }),
    })
    return {
      kind: 'answer',
      message,
      fields: {
        ...fields,
        incomplete: missing.length > 0 ? missing : undefined,
        ext: {
          tributary: {
            upstreams: reports,
            ...(read && readAs(read)),
            ...(relevance.length > 0 && { relevance }),
          },
        },
      },
      rows,
      warnings: [...page.warnings, ...(read?.isCut ? [QUESTION_CUT] : [])],
    }
  }

  async function submitted(
    inquiry: Inquiry,
    input: GetSignalsRequest,
    reader: Reader,
    { contextId }: DiscoverContext,
  ) {
    const taskId = await later?.submit(inquiry, input, reader, contextId)
    if (taskId === undefined) return undefined
    if (typeof taskId !== 'string') return { kind: 'refused', error: taskId } as const
    const message = `Upstreams are still working on it: poll get_task_status with task_id ${taskId}.`
    return { kind: 'answer', status: 'submitted', message, fields: { task_id: taskId } } as const
  }

  /** The answer of get_signals in brief mode. The caller has already checked the request's rules and its account. */
  async function discover(
    input: GetSignalsRequest,
    reader: Reader,
    context: DiscoverContext,
    at?: Moment,
  ): Promise<DiscoverAnswer> {
    const cursor = cursorOf(input)
    if (cursor !== undefined) return furtherPage(cursor, input, reader, at)
    const refusal = await later?.refusal(input, reader)
    if (refusal) return { kind: 'refused', error: refusal }
    const deadline = Math.min(context.deadline, context.now + budgetMs(input)) - ANSWER_MS
    const inquiry = brief.ask(input, reader, deadline, context.signal)
    const [isSearched] = await Promise.all([
      input.signal_spec === undefined || searchable(deadline, context.signal),
      inquiry.prepared(deadline),
    ])
    const ranked = await inquiry.rank()
    if (!ranked) return NOT_READY
    const outstanding = [...inquiry.answers().values()].filter(
      ({ kind }) => kind === 'pending' || kind === 'submitted',
    )
    // An anonymous caller cannot own a task.
    const rather = input.push_notification_config !== undefined || ranked.hits.length === 0
    if (outstanding.length > 0 && rather && reader.visibility === 'full') {
      const answer = await submitted(inquiry, input, reader, context)
      if (answer) return answer
    }
    return firstPage(ranked, input, reader, isSearched)
  }

  return { discover, firstPage }
}
