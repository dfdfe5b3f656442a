/**
 * Brief discovery as a task answer: within its time one ranked, paged answer that says what is missing; or `submitted`,
 * when the caller would rather have all of it later (specification, "Response body", "Errors").
 */
import { LRUCache } from 'lru-cache'
import { durationMs } from '../adcp/duration.js'
import { type AdcpError, type AdcpWarning, adcpError } from '../adcp/error.js'
import type { GetSignalsRequest } from '../adcp/get-signals.js'
import { WORDS } from '../feed/keys.js'
import { type Resolved, resolveHandle } from '../feed/lookup.js'
import type { Reader } from '../feed/query.js'
import { handleAt, type Snapshot } from '../feed/snapshot.js'
import type { BriefOptions } from './brief.js'
import { type Brief, type Inquiry, questionKey, type Ranked, selectionOf } from './brief.js'
import { type Ground, hitOf, keyOf } from './hits.js'
import type { Kept, KeptAnswer } from './kept.js'
import { briefMessage } from './message.js'
import { createGate, createRowPieces } from './page.js'

const DEFAULT_BUDGET_MS = 10_000
const MIN_BUDGET_MS = 1_000
const MAX_BUDGET_MS = 120_000 // FACTS 2
/** Kept back for merging and writing, so that the answer leaves by its deadline. */
const ANSWER_MS = 60
const DEFAULT_PAGE = 50 // specification, "Limits"
const MAX_PAGE = 100
const MOST_BESIDE = 20_000 // handles of signals that only answers know

/** What is known of the request beside its fields; the server's call context has it. */
export type DiscoverContext = { now: number; deadline: number; signal: AbortSignal; contextId: string }

export type DiscoverAnswer =
  | {
      kind: 'answer'
      status?: 'completed' | 'submitted'
      message: string
      fields: Readonly<Record<string, unknown>>
      rows?: { field: string; parts: readonly Uint8Array[] }
      warnings?: readonly AdcpWarning[]
    }
  | { kind: 'refused'; error: AdcpError }

/** Takes over questions that outlive their request. */
export type Later = {
  /** Undefined when the caller's notification settings can be honoured, or it sent none. */
  refusal(input: GetSignalsRequest, reader: Reader): Promise<AdcpError | undefined>
  /** Gives the task's id once it is durable. */
  submit(
    inquiry: Inquiry,
    input: GetSignalsRequest,
    reader: Reader,
    contextId: string,
  ): Promise<string | AdcpError>
}

export type DiscoverOptions = {
  brief: Brief
  feed: BriefOptions['feed']
  kept: Kept
  /** Resolves when the feed can be searched, at `until` (ms since the epoch) at the latest. */
  searchable(until: number, signal: AbortSignal): Promise<void>
  /** Absent: nothing is ever answered later. */
  later?: Later
}

/** How long this question may take, ms. */
export function budgetMs({ time_budget: asked }: Pick<GetSignalsRequest, 'time_budget'>): number {
  if (!asked) return DEFAULT_BUDGET_MS
  return Math.min(MAX_BUDGET_MS, Math.max(MIN_BUDGET_MS, durationMs(asked)))
}

function badCursor(): DiscoverAnswer {
  const error = adcpError(
    'INVALID_REQUEST',
    'The cursor is not one that this question was given, or it is too old.',
    {
      field: 'pagination.cursor',
      suggestion: 'Ask the question again, without a cursor.',
    },
  )
  return { kind: 'refused', error }
}

const NOT_READY: DiscoverAnswer = {
  kind: 'refused',
  error: adcpError('SERVICE_UNAVAILABLE', 'The feed is being read for the first time.', { retry_after: 2 }),
}

function pageSize({ pagination, max_results: deprecated }: GetSignalsRequest): number {
  return Math.min(MAX_PAGE, pagination?.max_results ?? deprecated ?? DEFAULT_PAGE)
}

/** Cursors work for this caller and this question. */
function bindingOf(input: GetSignalsRequest, reader: Reader): string {
  return JSON.stringify([reader.caller, reader.visibility, questionKey(input, reader)])
}

function keysOf({ ground, hits }: Ranked): Uint32Array {
  const keys = new Uint32Array(hits.length * WORDS)
  hits.forEach((hit, at) => {
    keys.set(keyOf(ground, hit), at * WORDS)
  })
  return keys
}

export function createDiscover({ brief, feed, kept, searchable, later }: DiscoverOptions) {
  /** Signals that are not in the feed, by handle: they can be activated, so they must be found again. */
  const besides = new LRUCache<string, Snapshot>({ max: MOST_BESIDE })
  const besideName = (handle: string, account: string | undefined) => JSON.stringify([account ?? '', handle])

  function remember({ beside }: Ground, { account }: Reader): void {
    if (!beside) return
    for (const entry of beside.shown) besides.set(besideName(handleAt(beside, entry), account), beside)
  }

  /** Rows of a kept answer from `from` on, as the reader sees them now. */
  function page(id: string, answer: KeptAnswer, from: number, input: GetSignalsRequest, reader: Reader) {
    const selection = selectionOf(input)
    const seen = feed.see(selection, reader)
    if (!seen) return undefined
    const { beside, keys } = answer
    const ground: Ground = { feed: seen.snapshot, ...(beside && { beside }) }
    const sight = { criteria: seen.criteria, reader, ...(selection.fields && { fields: selection.fields }) }
    const passes = createGate(ground, seen.entries, sight)
    const size = pageSize(input)
    const total = keys.length / WORDS
    const hits: number[] = []
    let next = from
    for (; next < total && hits.length < size; next += 1) {
      const hit = hitOf(ground, keys.subarray(next * WORDS, (next + 1) * WORDS))
      if (hit >= 0 && passes(hit)) hits.push(hit)
    }
    const pieces = createRowPieces(ground, sight)
    const more = next < total
    const { cacheScope, feedVersion, pricingVersion } = seen.versions
    return {
      hits,
      pieces,
      total,
      fields: {
        cache_scope: cacheScope,
        wholesale_feed_version: feedVersion,
        pricing_version: pricingVersion,
        pagination: {
          has_more: more,
          cursor: more ? kept.cursor(id, next, bindingOf(input, reader)) : undefined,
          total_count: total,
        },
      },
      warnings: [...seen.warnings, ...pieces.warnings(hits)],
    }
  }

  function furtherPage(cursor: string, input: GetSignalsRequest, reader: Reader): DiscoverAnswer {
    const found = kept.find(cursor, bindingOf(input, reader))
    if (!found) return badCursor()
    const shown = page(found.id, found.answer, found.from, input, reader)
    if (!shown) return NOT_READY
    const { hits, pieces, total, fields, warnings } = shown
    return {
      kind: 'answer',
      message: `${hits.length} of ${total} matching signals.`,
      fields,
      rows: { field: 'signals', parts: pieces.rows(hits) },
      warnings,
    }
  }

  /** The first page of a ranked answer, which is kept for the others. */
  function firstPage(ranked: Ranked, input: GetSignalsRequest, reader: Reader): DiscoverAnswer {
    const { ground, reports, missing } = ranked
    remember(ground, reader)
    const answer: KeptAnswer = { keys: keysOf(ranked), ...(ground.beside && { beside: ground.beside }) }
    const id = kept.keep(reader.caller, answer)
    const shown = page(id, answer, 0, input, reader)
    if (!shown) return NOT_READY
    const { hits, pieces, total, fields, warnings } = shown
    const [first] = hits
    const best = first === undefined ? undefined : pieces.row(first)
    const message = briefMessage({
      best: best as Parameters<typeof briefMessage>[0]['best'],
      count: hits.length,
      total,
      missing: missing.length,
      seesPrices: reader.visibility === 'full',
    })
    return {
      kind: 'answer',
      message,
      fields: {
        ...fields,
        incomplete: missing.length > 0 ? missing : undefined,
        ext: { tributary: { upstreams: reports } },
      },
      rows: { field: 'signals', parts: pieces.rows(hits) },
      warnings,
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
    const message = 'Upstreams are still working on it. Ask get_task_status for the result.'
    return { kind: 'answer', status: 'submitted', message, fields: { task_id: taskId } } as const
  }

  /** The answer of get_signals in brief mode. The request's own rules and its account are settled before. */
  async function discover(
    input: GetSignalsRequest,
    reader: Reader,
    context: DiscoverContext,
  ): Promise<DiscoverAnswer> {
    const cursor = input.pagination?.cursor
    if (cursor !== undefined) return furtherPage(cursor, input, reader)
    const refusal = await later?.refusal(input, reader)
    if (refusal) return { kind: 'refused', error: refusal }
    const deadline = Math.min(context.deadline, context.now + budgetMs(input)) - ANSWER_MS
    const inquiry = brief.ask(input, reader, deadline, context.signal)
    await Promise.all([inquiry.settled(deadline), searchable(deadline, context.signal)])
    const ranked = inquiry.rank()
    if (!ranked) return NOT_READY
    const outstanding = [...inquiry.answers().values()].filter(
      ({ kind }) => kind === 'pending' || kind === 'submitted',
    )
    // A caller without a name has no task that is its own.
    const rather = input.push_notification_config !== undefined || ranked.hits.length === 0
    if (outstanding.length > 0 && rather && reader.visibility === 'full') {
      const answer = await submitted(inquiry, input, reader, context)
      if (answer) return answer
    }
    return firstPage(ranked, input, reader)
  }

  return {
    discover,
    firstPage,
    /** Where a handle leads that only answers know; ask the feed first. */
    resolve(handle: string, account?: string): Resolved | undefined {
      const signal = handle.split('.', 1)[0] as string
      const beside = besides.get(besideName(signal, account)) ?? besides.get(besideName(signal, undefined))
      return beside && resolveHandle(beside, handle)
    },
  }
}
