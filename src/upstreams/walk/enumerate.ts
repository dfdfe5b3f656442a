/**
 * Finds the signals of an agent that has no wholesale feed, by asking for them: exact lookup of what providers published and
 * authorized for it, in batches, or by name where it knows no lookup, and seed questions (docs/configuration.md, `seeds`;
 * specification, `signal_refs`). Questions of buyers that find rows which no seed finds are asked again behind the seeds, so
 * that these rows are in the feed (docs/decisions.md#what-buyers-ask). A few are kept, in memory only, and sent only to the
 * agent that was asked them before.
 */
import { isRecord } from '../../adcp/json.js'
import type { SignalRef } from '../../adcp/signal.js'
import {
  type AgentOutcome,
  type Arguments,
  type CallFailure,
  callFailed,
  namesTask,
  type Payload,
} from '../agent/agent.js'
import {
  briefShapes,
  type Dialect,
  isAboutRequest,
  lookupShapes,
  pagingOf,
  refusalOf,
} from '../agent/dialect.js'
import { type Collected, type Collector, createCollector } from '../rows/new-slice.js'
import type { Part } from '../rows/slice.js'
import { missingRows, nextCursor, OVER_MEMORY, partsOut } from './walk.js'

const MOST_ASKED = 20
const LONGEST_ASKED = 500 // characters; a longer question is a brief, and nobody asks it again
const BATCH = 50 // references in one question: a request of some 10 KB
const MAX_PAGES = 20 // of one question
const GROWTH = 10
const LARGEST = 10_000 // rows asked for at once: beyond it one answer is a feed
const MAX_POLLS = 30
const POLL_MS = 2_000

type EnumerateOptions = {
  dialect: Dialect
  refs: readonly SignalRef[]
  /** What providers call the same signals: questions for an agent that cannot be asked for references. */
  names: readonly string[]
  seeds: readonly string[]
  /** Questions of buyers, asked last: an agent that fails on one of them has already given the other rows. */
  asked: readonly string[]
  pageSize: number
  ask(task: string, args: Arguments): Promise<AgentOutcome>
  /** Waits; given as an argument so that tests need not. */
  sleep(ms: number): Promise<void>
  /** For all questions together, ms: however slowly an agent answers them. */
  walkMs: number
  now(): number
  /** Told how much has been gathered; false when it may not go on (upstreams/walk/governor.ts). */
  gathers(rows: number, bytes: number): boolean
}

type EnumerateOutcome =
  | ({
      kind: 'complete'
      out: readonly Part[]
      /** Some question was answered with as many rows as the agent gives at most. */
      limitedAt?: number
      /** Questions that failed, or found nothing which the questions before them had not found. */
      barren: ReadonlySet<string>
    } & Collected)
  | CallFailure

/** What the questions so far brought. */
type Learnt = {
  collector: Collector
  /** Shapes before these were refused. */
  understood: { lookup: number; brief: number }
  out: Set<Part>
  /** The number of rows to ask for at once. */
  size: number
  limitedAt?: number
}

/** One question, in the shapes that the agent may understand it in. */
type Question = { kind: 'lookup' | 'brief'; text?: string; isBuyers?: boolean; shapes: readonly Arguments[] }

type Answer = Extract<AgentOutcome, { kind: 'answer' }>
type Trouble = Exclude<AgentOutcome, { kind: 'answer' }>

/** The questions of buyers at one agent; none so far. */
export function createAsked() {
  const questions = new Map<string, { isUseful: boolean }>()

  function makeRoom(): void {
    for (const [text, { isUseful }] of questions) {
      if (questions.size < MOST_ASKED) return
      if (!isUseful) questions.delete(text)
    }
  }

  return {
    /** A question that the agent answered with rows. */
    note(text: string): void {
      if (text.length > LONGEST_ASKED || questions.has(text)) return
      makeRoom()
      if (questions.size < MOST_ASKED) questions.set(text, { isUseful: false })
    },
    questions: (): readonly string[] => [...questions.keys()],
    /** After these were asked behind the seeds: forgets those that failed or found nothing new. */
    learn(asked: readonly string[], barren: ReadonlySet<string>): void {
      for (const text of asked) {
        const question = questions.get(text)
        if (barren.has(text)) questions.delete(text)
        else if (question) question.isUseful = true
      }
    },
    clear: () => questions.clear(),
  }
}

export type QuestionsAsked = ReturnType<typeof createAsked>

function batches(refs: readonly SignalRef[]): (readonly SignalRef[])[] {
  return Array.from({ length: Math.ceil(refs.length / BATCH) }, (_, at) =>
    refs.slice(at * BATCH, (at + 1) * BATCH),
  )
}

function questionsOf({ dialect, refs, names, seeds, asked }: EnumerateOptions): Question[] {
  const asLookup = (batch: readonly SignalRef[]): Question => ({
    kind: 'lookup',
    shapes: lookupShapes(dialect, batch),
  })
  const asBrief = (text: string, isBuyers: boolean): Question => ({
    ...{ kind: 'brief', text, isBuyers },
    shapes: briefShapes(dialect, text),
  })
  const lookups = batches(refs)
    .map(asLookup)
    .filter(({ shapes }) => shapes.length > 0)
  const own = new Set([...(lookups.length > 0 ? [] : names), ...seeds])
  const briefs = [...new Set([...own, ...asked])]
  return [...lookups, ...briefs.map((text) => asBrief(text, !own.has(text)))]
}

function failureOf(trouble: Trouble): CallFailure {
  return trouble.kind === 'failed' ? trouble : refusalOf(trouble.error)
}

/** An agent may work on a brief question: its task is polled a bounded number of times. */
async function settled(first: AgentOutcome, { ask, sleep }: EnumerateOptions): Promise<AgentOutcome> {
  let outcome = first
  for (let polls = 0; polls < MAX_POLLS; polls++) {
    if (outcome.kind !== 'answer') return outcome
    const { status, task_id: taskId, result } = outcome.payload
    if (isRecord(result)) return { kind: 'answer', payload: result, rows: outcome.rows }
    if ((status !== 'submitted' && status !== 'working') || !namesTask(taskId)) return outcome
    await sleep(POLL_MS)
    const polled = await ask('get_task_status', { task_id: taskId, include_result: true })
    outcome =
      polled.kind === 'answer' ? { ...polled, payload: { task_id: taskId, ...polled.payload } } : polled
  }
  return callFailed('timeout', 'the agent did not finish its discovery task')
}

/** From where one has got to, up to what the agent's schema allows. */
function growing(from: number, most: number): number[] {
  const largest = Math.min(most, LARGEST)
  const sizes = [Math.min(from, largest)]
  for (let size = from * GROWTH; size <= LARGEST; size *= GROWTH) sizes.push(Math.min(size, largest))
  return [...new Set(sizes)]
}

function saysMore({ pagination }: Payload, rows: number): boolean {
  if (!isRecord(pagination)) return false
  const { has_more: hasMore, total_count: total } = pagination
  return hasMore === true || (typeof total === 'number' && total > rows)
}

/** 5, 10, 20, 25, 50, 100 and so on: numbers that people write into programs as the most that is given at once. */
function isUsualLimit(rows: number): boolean {
  if (rows < 5) return false
  const digits = String(rows).replace(/0+$/, '')
  return ['1', '2', '25', '5'].includes(digits)
}

/**
 * Asks an agent without pages for ever more rows, until it gives fewer than were asked for: then these are all, unless their number
 * looks like a limit of its own. One that will not give more has a limit, and what lies beyond it is not seen.
 */
async function askGrowing(
  question: Arguments,
  options: EnumerateOptions,
  learnt: Learnt,
  most: number,
): Promise<Trouble | undefined> {
  let best: Answer | undefined
  let isAll = false
  for (const size of growing(learnt.size, most)) {
    const asked = { ...question, pagination: { max_results: size } }
    const outcome = await settled(await options.ask('get_signals', asked), options)
    if (outcome.kind !== 'answer') {
      if (!best || failureOf(outcome).reason === 'unauthorized') return outcome
      break // it is the larger number that it refuses, or cannot give in time
    }
    const { elements } = outcome.rows
    if (best && elements <= best.rows.elements) break
    best = outcome
    learnt.size = size
    isAll = elements < size && !saysMore(outcome.payload, elements) && !isUsualLimit(elements)
    if (isAll) break
  }
  if (!best) return undefined
  if (!isAll) learnt.limitedAt = Math.max(learnt.limitedAt ?? 0, best.rows.elements)
  return take(best, options, learnt)
}

/** Keeps what an answer brought; the failure when it lacks rows, or there is no room for more. */
async function take(
  { payload, rows }: Answer,
  { gathers }: EnumerateOptions,
  { out, collector }: Learnt,
): Promise<CallFailure | undefined> {
  const lacking = missingRows(payload)
  if (lacking) return lacking
  for (const part of partsOut(payload)) out.add(part)
  await collector.take(rows)
  return gathers(collector.rows(), collector.bytes()) ? undefined : OVER_MEMORY
}

/** Asks one question to its last page; undefined when all went well. */
async function askWhole(
  question: Arguments,
  options: EnumerateOptions,
  learnt: Learnt,
): Promise<Trouble | undefined> {
  const paging = pagingOf(options.dialect)
  if (paging.kind === 'number') return askGrowing(question, options, learnt, paging.most)
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const sizes = { max_results: options.pageSize, ...(cursor && { cursor }) }
    const outcome = await settled(
      await options.ask('get_signals', { ...question, pagination: sizes }),
      options,
    )
    if (outcome.kind !== 'answer') return outcome
    const stopped = await take(outcome, options, learnt)
    if (stopped) return stopped
    const { elements } = outcome.rows
    if (paging.kind === 'fixed' && isUsualLimit(elements))
      learnt.limitedAt = Math.max(learnt.limitedAt ?? 0, elements)
    cursor = nextCursor(outcome.payload)
    if (!cursor || seen.has(cursor)) return undefined
    seen.add(cursor)
  }
  return undefined
}

/** Asks in the first shape that the agent understands, from what is known of it on. */
async function askInShapes(
  { kind, shapes }: Question,
  options: EnumerateOptions,
  learnt: Learnt,
): Promise<Trouble | undefined> {
  for (let at = learnt.understood[kind]; ; at++) {
    const trouble = await askWhole(shapes[at] as Arguments, options, learnt)
    if (trouble && at < shapes.length - 1 && isAboutRequest(trouble)) continue
    if (!trouble) learnt.understood[kind] = at
    return trouble
  }
}

/**
 * The outcome is complete only if every question of ours is answered: half an enumeration would lose good rows. When there
 * are only buyers' questions, one answer is enough. Rows that were not asked for are kept, because agents that ignore the
 * reference answer with everything they have (docs/protocol.md#how-agents-differ).
 */
export async function enumerate(options: EnumerateOptions): Promise<EnumerateOutcome> {
  const questions = questionsOf(options)
  if (questions.length === 0) {
    return callFailed(
      'not_enumerable',
      'there was nothing else to ask: no published definition and no seed question names its signals',
    )
  }
  const collector = createCollector({ overlapping: true })
  const learnt: Learnt = {
    collector,
    understood: { lookup: 0, brief: 0 },
    out: new Set(),
    size: options.pageSize,
  }
  const barren = new Set<string>()
  const until = options.now() + options.walkMs
  let failed: CallFailure | undefined
  let isAnswered = false
  for (const question of questions) {
    const { text, isBuyers } = question
    if (options.now() >= until) {
      if (isBuyers && isAnswered) break
      return callFailed('timeout', `its questions took longer than ${options.walkMs} ms`)
    }
    const before = collector.rows()
    const trouble = await askInShapes(question, options, learnt)
    if (trouble) failed = failureOf(trouble)
    else isAnswered = true
    if (trouble && (!isBuyers || trouble === OVER_MEMORY)) return failureOf(trouble)
    if (text !== undefined && (trouble || collector.rows() === before)) barren.add(text)
  }
  if (failed && !isAnswered) return failed
  const { out, limitedAt } = learnt
  return {
    ...{ kind: 'complete', out: [...out], ...collector.finish(), barren },
    ...(limitedAt !== undefined && { limitedAt }),
  }
}
