/**
 * One reading of the feed, by which the copy is brought up to date: the agent says `unchanged`, and names the versions that were
 * sent, or all pages are walked (walk.ts).
 */
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../adcp/json.js'
import { backoffMs, type Clock, pause } from '../net/clock.js'
import type { Copy, CopyRow, CopyState, Replacement } from './copy.js'
import type { FeedAsker, FeedReply } from './feed-asker.js'
import {
  areOfOneFeed,
  createWalk,
  type FeedVersions,
  MAX_RESTARTS,
  pageAt,
  textIn,
  versionsOf,
} from './walk.js'

const MAX_ATTEMPTS = 6 // of one page: a walk outlives a restart of the agent, and being slowed down by it
const FIRST_WAIT_MS = 1_000

export type FeedReading =
  | { kind: 'unchanged'; state: CopyState }
  | { kind: 'replaced'; state: CopyState }
  /** The agent's events were applied, and the copy is now what the agent's feed is. */
  | { kind: 'applied'; state: CopyState }
  | { kind: 'failed'; reason: FeedFailure; message: string }

/**
 * `refused`: the agent refuses and will refuse again. `trouble`: there was no answer. `unsound`: the answer is no valid feed.
 * `moving`: it changed during every walk. `unwritten`: the copy could not be written.
 */
type FeedFailure = 'refused' | 'trouble' | 'unsound' | 'moving' | 'unwritten'

export type AskingOptions = {
  asker: FeedAsker
  /** Filters and account. */
  question: Readonly<Record<string, unknown>>
  clock: Clock
  random(): number
  signal: AbortSignal
}

type ReadingOptions = AskingOptions & {
  copy: Copy
  /** What the copy is, where the agent may answer that this is still the feed. */
  held: CopyState | undefined
  source: string
}

type Failure = Extract<FeedReading, { kind: 'failed' }>

export const failedReading = (reason: FeedFailure, message: string): Failure => ({
  kind: 'failed',
  reason,
  message,
})

/** Absent means that nothing is missing (schema signals/get-signals-response). */
export const incompleteIn = ({ incomplete }: Readonly<Record<string, unknown>>): readonly unknown[] =>
  Array.isArray(incomplete) ? incomplete : []

/** "Unchanged" need not repeat the versions; when it names other ones than ours, it is about another feed. */
export function confirms(
  { unchanged, ...answer }: Readonly<Record<string, unknown>>,
  held: CopyState,
): boolean {
  return unchanged === true && areOfOneFeed(held, { ...held, ...versionsOf(answer) })
}

/** The arguments that let an agent answer "unchanged" for a copy of these versions. */
export function conditionOf({ version, pricing }: FeedVersions): Record<string, string> {
  if (version === undefined) return {}
  return { if_wholesale_feed_version: version, ...(pricing && { if_pricing_version: pricing }) }
}

/** Undefined when one of them could not be kept: it has no id. */
function rowsOf(signals: readonly unknown[]): CopyRow[] | undefined {
  const rows: CopyRow[] = []
  for (const row of signals) {
    const id = isRecord(row) ? textIn(row.signal_agent_segment_id) : undefined
    if (!isRecord(row) || id === undefined) return undefined
    rows.push({ id, row })
  }
  return rows
}

/** Asks for the feed, again and again while there is no answer. */
export function patient({ asker, question, clock, random, signal }: AskingOptions) {
  return async (asked: Readonly<Record<string, unknown>>): Promise<FeedReply> => {
    for (let failures = 1; ; failures += 1) {
      if (signal.aborted) return { kind: 'trouble', message: 'the mirror was closed' }
      const reply = await asker.ask('get_signals', { discovery_mode: 'wholesale', ...question, ...asked })
      if (reply.kind !== 'trouble' || failures === MAX_ATTEMPTS) return reply
      const { retryAfterMs } = reply
      await pause(clock, backoffMs({ failures, refreshMs: FIRST_WAIT_MS, random, retryAfterMs }), signal)
    }
  }
}

/** Brings the copy up to date. Rejects when the copy cannot be written; what the agent does is an outcome. */
export async function readFeed(options: ReadingOptions): Promise<FeedReading> {
  const { copy, held, source, clock } = options
  const patiently = patient(options)

  /** All pages from the first one on; undefined when the feed moved meanwhile. */
  async function walk(first: FeedReply, into: Replacement): Promise<FeedReading | undefined> {
    const ids = new Set<string>()
    const pages = createWalk()
    for (let reply = first; ; ) {
      if (reply.kind !== 'answer') {
        const isGivenUp = reply.kind === 'refused' && reply.field === 'pagination.cursor'
        return reply !== first && isGivenUp ? undefined : failedReading(reply.kind, reply.message)
      }
      const { answer } = reply
      const step = pages.take(answer)
      if (step.kind === 'moved') return undefined
      if (step.kind === 'unsound') return failedReading('unsound', step.message)
      const rows = rowsOf(step.signals)
      if (!rows) return failedReading('unsound', 'a page holds rows that cannot be kept')
      // Of a segment that is listed twice the first row is kept.
      const fresh = rows.filter(({ id }) => !ids.has(id) && ids.add(id))
      await into.add(fresh)
      if (step.next === undefined) {
        const incomplete = incompleteIn(answer)
        const state = { source, ...pages.versions(), rows: ids.size, walkedAt: clock.now(), incomplete }
        await into.commit(state)
        return { kind: 'replaced', state }
      }
      reply = await patiently(pageAt(step.next))
    }
  }

  /** The rows stay, and what is missing is what the answer says. */
  async function confirmed(state: CopyState, answer: Readonly<Record<string, unknown>>) {
    const incomplete = incompleteIn(answer)
    return isDeepStrictEqual(incomplete, state.incomplete)
      ? state
      : await copy.amend(new Map(), { incomplete })
  }

  let reply = await patiently({ ...pageAt(), ...(held && conditionOf(held)) })
  if (held?.version !== undefined && reply.kind === 'answer') {
    // An agent that takes no tokens answers with its first page; the versions on it say the same as "unchanged".
    const { answer } = reply
    if (confirms(answer, held) || areOfOneFeed(held, versionsOf(answer))) {
      const state = await confirmed(held, answer)
      if (state) return { kind: 'unchanged', state }
    }
    // "Unchanged" under another version than ours proves nothing about our rows, nor does any where there are none any more.
    if (answer.unchanged === true) reply = await patiently(pageAt())
  }
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts += 1) {
    if (restarts > 0) reply = await patiently(pageAt())
    if (reply.kind !== 'answer') return failedReading(reply.kind, reply.message)
    const into = await copy.replace()
    const outcome = await walk(reply, into).catch(async (error: unknown) => {
      await into.abandon().catch(() => {}) // the error that matters is the one that ended the walk
      throw error
    })
    if (outcome?.kind !== 'replaced') await into.abandon()
    if (outcome) return outcome
  }
  return failedReading('moving', 'the feed changed during every walk')
}
