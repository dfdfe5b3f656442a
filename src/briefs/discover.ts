/**
 * Brief discovery as a task answer: within its time one ranked, paged answer that names what is missing; or
 * `submitted`, when the caller prefers the complete answer later (specification, "Response body", "Errors"). Its message says in
 * one or two sentences the best match, where it is live, and what it costs. Names come from providers and upstreams: letters and
 * digits are kept, markup is removed.
 */
import { type AdcpError, type AdcpWarning, firstOf, howMany, type Refused } from '../adcp/answer.js'
import type { Deployment, PricingOption } from '../adcp/signal.js'
import { cursorOf, durationMs, durationOf, type GetSignalsRequest } from '../adcp/signal-requests.js'
import type { IncompleteEntry } from '../feed/incomplete.js'
import type { Moment } from '../feed/layers.js'
import type { Gap, Reader } from '../feed/query.js'
import { MAX_CHARACTERS } from '../search/read-brief.js'
import type { FoundRow } from '../store/records/found.js'
import { type AnswerPage, type AnswerPages, NOT_READY } from './answer-pages.js'
import type { Brief, Inquiry, Missing, Ranked } from './brief.js'
import type { ShownRelevance } from './kept.js'
import type { UnderstoodWords } from './rank.js'

const NAME_LENGTH = 80
const MOST_PLACES = 3
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

const QUESTION_CUT: AdcpWarning = {
  code: 'QUESTION_CUT',
  severity: 'warning',
  field: 'signal_spec',
  message: 'The question says more than is read of one: its first part was answered.',
  suggestion: `Ask in at most ${MAX_CHARACTERS} characters, and name few things that must be or must not be there.`,
}

type Row = { name: string; deployments: readonly Deployment[]; pricing_options?: readonly PricingOption[] }

type Outcome = {
  best: Row | undefined
  count: number
  total: number
  /** Upstreams that did not answer. */
  missing: number
  /** Whether the feed itself could be searched. */
  isSearched: boolean
  seesPrices: boolean
  /** The words of the question that the best match has and lacks. */
  relevance?: Pick<ShownRelevance, 'has' | 'lacks'>
  /** What was read from the words besides the subject. */
  read?: UnderstoodWords
}

/** A provider's or upstream's text without characters that could be read as markup in our sentence. */
function plain(text: string): string {
  const clean = text
    .replace(/[^\p{L}\p{M}\p{N} &,.+%$€£()/·:-]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  return clean.length > NAME_LENGTH ? `${clean.slice(0, NAME_LENGTH - 1)}…` : clean
}

function placeName(deployment: Deployment): string {
  if (deployment.type === 'platform') return plain(deployment.platform)
  return URL.canParse(deployment.agent_url) ? new URL(deployment.agent_url).host : 'a sales agent'
}

const listed = (names: readonly string[]) => firstOf(MOST_PLACES, names)

function whereLive({ deployments }: Row): string {
  const live = [...new Set(deployments.filter(({ is_live }) => is_live).map(placeName))]
  if (live.length > 0) return `live on ${listed(live)}`
  const possible = [...new Set(deployments.map(placeName))]
  if (possible.length === 0) return 'not deployed anywhere yet'
  const minutes = deployments
    .map((deployment) => deployment.estimated_activation_duration_minutes)
    .filter((estimate) => estimate !== undefined)
  const wait = minutes.length > 0 ? ` in about ${howMany(Math.min(...minutes), 'minute')}` : ''
  return `not live yet, can be activated on ${listed(possible)}${wait}`
}

function range(amounts: readonly number[], unit: string): string {
  const [low, high] = [Math.min(...amounts), Math.max(...amounts)]
  return low === high ? `${low} ${unit}` : `${low} to ${high} ${unit}`
}

function priceRange({ pricing_options: options = [] }: Row): string {
  const amounts = new Map<string, number[]>()
  const add = (unit: string, amount: number) => amounts.set(unit, [...(amounts.get(unit) ?? []), amount])
  for (const option of options) {
    if (option.model === 'cpm') add(`${option.currency} CPM`, option.cpm)
    else if (option.model === 'percent_of_media') add('percent of media', option.percent)
    else if (option.model === 'flat_fee') add(`${option.currency} ${option.period}`, option.amount)
    else if (option.model === 'per_unit')
      add(`${option.currency} per ${plain(option.unit)}`, option.unit_price)
    else amounts.set('custom terms', [])
  }
  const ranges = Array.from(amounts, ([unit, values]) => (values.length > 0 ? range(values, unit) : unit))
  return ranges.length > 0 ? ranges.join(' or ') : 'no price published'
}

/** The words of the question that the best match has, and those that it lacks. */
function fitText({ has, lacks }: Pick<ShownRelevance, 'has' | 'lacks'>): string {
  if (has.length + lacks.length === 0) return ''
  if (has.length === 0) return ' Nothing in it says what was asked.'
  const missing = lacks.length > 0 ? `, and nothing of ${listed(lacks.map(plain))}` : ''
  return ` It has ${listed(has.map(plain))}${missing}.`
}

/** What was read from the words, and which filter makes it apply to every row. */
function readText({
  countries,
  lookbackDays,
  maxCpm,
  platforms,
  isCut,
  isMet,
  ratesAsOf,
}: UnderstoodWords): string {
  const unit = maxCpm?.currency ?? 'of no currency, which nothing is compared with'
  const rates = ratesAsOf ? `, other currencies compared by rates of ${ratesAsOf}` : ''
  const price = maxCpm && `CPM up to ${maxCpm.amount} ${unit}${rates}`
  const parts = [
    ...(countries.length > 0 ? [`countries ${countries.join(', ')}`] : []),
    ...(platforms.length > 0 ? [`destinations ${listed(platforms.map(plain))}`] : []),
    ...(price ? [price] : []),
    ...(lookbackDays.length > 0
      ? [`last ${[...lookbackDays.slice(0, -1), howMany(lookbackDays.at(-1) as number, 'day')].join(' or ')}`]
      : []),
  ]
  const cut = isCut ? ' The question was too long to be read in full.' : ''
  if (parts.length === 0) return cut
  const first = isMet ? 'These come first' : 'No signal that is about this has all of it'
  return ` Read as: ${parts.join('; ')}. ${first}; send countries, destinations or filters to have nothing else.${cut}`
}

/** Said when no signal has a word of the question: those that upstreams returned all the same are on the next page. */
function onlyVouched(total: number): string {
  return `No signal matches the words. The next page has ${howMany(total, 'signal')} that upstreams returned for them, and that share none.`
}

/** The message of a brief answer (specification, "A brief-mode agent should produce a `message` ..."). */
export function briefMessage(outcome: Outcome): string {
  const { best, count, total, missing, isSearched, seesPrices, relevance, read } = outcome
  const unsearched = isSearched ? '' : ' The newest feed is not searched yet: see incomplete.'
  const absent = missing === 0 ? '' : ` The answer lacks ${howMany(missing, 'upstream')}: see incomplete.`
  const lacking = unsearched + absent
  const understood = read ? readText(read) : ''
  if (!best) return `${total === 0 ? 'No signal matches.' : onlyVouched(total)}${understood}${lacking}`
  const price = seesPrices ? priceRange(best) : 'prices need credentials'
  const found = `${count} of ${howMany(total, 'matching signal')}.`
  return `Best match: "${plain(best.name)}", ${whereLive(best)}; ${price}.${relevance ? fitText(relevance) : ''} ${found}${understood}${lacking}`
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
  later: Later
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
  /** What a page lacks: what the whole answer does, and what the feed does now. */
  function incomplete({ missing, gaps }: AnswerPage, reader: Reader) {
    const entries = [...missing, ...lacks(gaps, reader)]
    return { incomplete: entries.length > 0 ? entries : undefined }
  }

  async function furtherPage(
    cursor: string,
    input: GetSignalsRequest,
    reader: Reader,
    at: Moment | undefined,
  ): Promise<DiscoverAnswer> {
    const page = await pages.further(cursor, input, reader, at)
    if (page.kind === 'refused') return page
    const { count, total, rows, warnings, relevance } = page
    const fields = {
      ...page.fields,
      ...incomplete(page, reader),
      ...(relevance.length > 0 && { ext: { tributary: { relevance } } }),
    }
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
    const { at, corpus, hits, rows: said, reports, read, relevance: order } = ranked
    await learn(said)
    const missing = [...(isSearched ? [] : [UNSEARCHED]), ...ranked.missing]
    const page = await pages.first({ corpus, hits, said, missing, relevance: order }, input, reader, at)
    if (page.kind === 'refused') return page
    const { count, total, fields, rows, relevance } = page
    const [relevanceOfBest] = relevance
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
        ...{ ...fields, ...incomplete(page, reader) },
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
  ): Promise<DiscoverAnswer> {
    const taskId = await later.submit(inquiry, input, reader, contextId)
    if (typeof taskId !== 'string') return { kind: 'refused', error: taskId }
    const message = `Upstreams are still working on it: poll get_task_status with task_id ${taskId}.`
    return { kind: 'answer', status: 'submitted', message, fields: { task_id: taskId } }
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
    const refusal = await later.refusal(input, reader)
    if (refusal) return { kind: 'refused', error: refusal }
    const deadline = Math.min(context.deadline, context.now + budgetMs(input)) - ANSWER_MS
    const inquiry = brief.ask(input, reader, deadline, context.signal)
    const isSpoken = input.signal_spec !== undefined
    const search = isSpoken ? searchable(deadline, context.signal) : Promise.resolve(true)
    const { ranked, isSearched } = await inquiry.rankedBy(deadline, search)
    if (!ranked) return NOT_READY
    const outstanding = [...inquiry.answers().values()].filter(
      ({ kind }) => kind === 'pending' || kind === 'submitted',
    )
    // An anonymous caller cannot own a task.
    const rather = input.push_notification_config !== undefined || ranked.hits.length === 0
    if (outstanding.length > 0 && rather && reader.visibility === 'full') {
      return submitted(inquiry, input, reader, context)
    }
    return firstPage(ranked, input, reader, isSearched)
  }

  return { discover, firstPage }
}
