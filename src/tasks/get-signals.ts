/**
 * get_signals: the wholesale feed page by page, exact lookup, and search in plain words (specification, "Operation
 * `get_signals`"). The rules between fields and the account are settled here; the feed and discovery answer.
 */
import {
  type AccountFound,
  createReaders,
  type DeclaredAccounts,
  findAccount,
} from '../activation/accounts.js'
import {
  type AdcpWarning,
  type Answer,
  type Answered,
  howMany,
  isSince32,
  type Release,
  refuse,
} from '../adcp/answer.js'
import { invalidRequest, type Violation } from '../adcp/schema.js'
import {
  cursorOf,
  GetSignalsRequest,
  namedSignals,
  pageSizeOf,
  selectionOf,
} from '../adcp/signal-requests.js'
import { GetSignalsResponse } from '../adcp/task-schemas.js'
import type { AnswerPage } from '../briefs/answer-pages.js'
import { staleWarnings } from '../briefs/brief.js'
import type { Lookup } from '../briefs/lookup.js'
import type { Feed } from '../feed/feed.js'
import { type Health, type IncompleteEntry, incompleteOf } from '../feed/incomplete.js'
import type { Moment } from '../feed/layers.js'
import type { Gap, Page, Reader, Versions, WholesaleAnswer, WholesaleQuery } from '../feed/query.js'
import { inTurns } from '../process/portion-turns.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { pushFaults, unnamedOperation } from './push-faults.js'
import type { CallContext, Task } from './task.js'

const LOOKUPS = ['signal_spec', 'signal_refs', 'signal_ids'] as const
const NARROW =
  'Leave it out and narrow with filters, destinations and countries, or leave discovery_mode out to search.'
const NO_TOKENS = 'Leave it out, or send discovery_mode "wholesale".'
const IN_WORDS = 5 // rows of a page of the feed: its text must not cost much, for most read the data
const TOKENS = ['if_wholesale_feed_version', 'if_pricing_version'] as const

/** In 3.0 every signal has a price, and prices need credentials. */
const PRICES_NEEDED = refuse(
  'AUTH_REQUIRED',
  'In AdCP 3.0 every signal has a price, and prices need credentials.',
  { suggestion: 'Send Authorization: Bearer with a key of this agent, or pin adcp_version "3.1".' },
)

/** Another process has what the walk goes on in, and a walk must not tear: the caller asks again. */
const CUT_OFF = refuse(
  'SERVICE_UNAVAILABLE',
  'This walk began in a snapshot that cannot be fetched just now.',
  { retry_after: 1, suggestion: 'Repeat this page with the same cursor, or start again without one.' },
)

/**
 * Brief mode; `reader` is the caller, its account checked. Rules and account are settled before it is asked. `at`: the moment
 * that an answer was prepared for.
 */
export type SignalsDiscovery = {
  discover(
    input: GetSignalsRequest,
    reader: Reader,
    context: CallContext,
    at?: Moment,
  ): Answer | Promise<Answer>
  lookup: Lookup
}

export type GetSignalsOptions = {
  feed: Pick<Feed, 'isServing' | 'wholesale' | 'wholesaleAgain' | 'reading' | 'known' | 'preparing'>
  /** Fetches what the feed lacks of a walk; never rejects. Undefined: nothing is lacking; false: it cannot be had now. */
  recall?(query: WholesaleQuery, reader: Reader, now: number): Promise<boolean> | undefined
  upstreams: Health
  discovery: SignalsDiscovery
  declaredAccounts: DeclaredAccounts
}

/** What a request asks of the feed; the same object for an input that comes again, which pins the same release. */
type Question = { broken: readonly Violation[]; query: WholesaleQuery }

type Lacks = {
  incomplete: IncompleteEntry[] | undefined
  warnings: readonly AdcpWarning[]
  /** Equal when the same is missing. */
  name: string
}

type Found = Exclude<WholesaleAnswer, { kind: 'refused' }>

function forbidden(
  names: readonly string[],
  input: object,
  message: string,
  suggestion: string,
): Violation[] {
  return names
    .filter((name) => (input as Record<string, unknown>)[name] !== undefined)
    .map((name) => ({ pointer: `/${name}`, message, keyword: 'not', suggestion }))
}

/** The rules between fields (specification, "Errors", "Operation by combination"). */
function violations(input: GetSignalsRequest): Violation[] {
  const pricingAlone =
    input.if_pricing_version !== undefined && input.if_wholesale_feed_version === undefined
      ? [
          {
            pointer: '/if_pricing_version',
            message: 'must be sent together with if_wholesale_feed_version',
            keyword: 'dependencies',
            suggestion: 'Send both tokens of your copy, or only if_wholesale_feed_version.',
          },
        ]
      : []
  if (input.discovery_mode === 'wholesale') {
    return [
      ...forbidden(LOOKUPS, input, 'must not be sent in wholesale mode', NARROW),
      ...pricingAlone,
      ...pushFaults(input),
    ]
  }
  const nothingAsked = LOOKUPS.every((name) => input[name] === undefined)
    ? [
        {
          pointer: '/signal_spec',
          message: 'is required in brief mode when signal_refs is absent',
          keyword: 'required',
          suggestion:
            'Send signal_spec or signal_refs, or discovery_mode "wholesale" to walk the whole feed.',
        },
      ]
    : []
  return [
    ...forbidden(TOKENS, input, 'is only valid when discovery_mode is wholesale', NO_TOKENS),
    ...nothingAsked,
    // A brief may be answered later: its configuration is read with all that else can be wrong (src/briefs/later.ts).
    ...(input.signal_spec === undefined ? pushFaults(input) : []),
  ]
}

/** Every answer of 3.0 has signals: it ignores the tokens (specification, "Versioning"). */
function wholesaleQuery(input: GetSignalsRequest, release: Release): WholesaleQuery {
  const { if_wholesale_feed_version: feed, if_pricing_version: pricing } = input
  const cursor = cursorOf(input)
  return {
    maxResults: pageSizeOf(input),
    ...(cursor !== undefined && { cursor }),
    ...(release !== '3.0' && feed !== undefined && { ifFeedVersion: feed }),
    ...(release !== '3.0' && pricing !== undefined && { ifPricingVersion: pricing }),
    ...selectionOf(input),
  }
}

function createQuestions() {
  const known = new WeakMap<GetSignalsRequest, Question>()
  return (input: GetSignalsRequest, { release, comesAgain }: CallContext): Question => {
    const found = comesAgain ? known.get(input) : undefined
    if (found) return found
    const broken = [...violations(input), ...(isSince32(release) ? unnamedOperation(input) : [])]
    const made = { broken, query: wholesaleQuery(input, release) }
    if (comesAgain) known.set(input, made)
    return made
  }
}

/** A status is the same object until it says something else. */
const areSame = (some: readonly UpstreamStatus[], others: readonly UpstreamStatus[]) =>
  some.length === others.length && some.every((status, at) => status === others[at])

/**
 * What answers lack at the moment, by the gaps of their snapshot and the account of their reader. The upstreams are asked for
 * their states once per turn of the event loop, and what those lack is put into words: asking and saying it for each answer
 * would cost more than the rest of a prepared one. Where nothing is lacking, that is so until a state is another.
 */
function createLacks({ statuses, statusesOf, silentRegistries }: Health) {
  let everybody: ReturnType<Health['statuses']> = []
  let silent: ReturnType<Health['silentRegistries']> = []
  const looked: Health = { statuses: () => everybody, statusesOf, silentRegistries: () => silent }
  let whole = new WeakMap<readonly Gap[], Lacks>()
  let ofTurn: Map<readonly Gap[], Map<string | undefined, Lacks>> | undefined

  function look(): NonNullable<typeof ofTurn> {
    const before = everybody
    everybody = statuses()
    silent = silentRegistries()
    if (silent.length > 0 || !areSame(everybody, before)) whole = new WeakMap()
    setImmediate(() => {
      ofTurn = undefined
    })
    return new Map()
  }

  return (gaps: readonly Gap[], account: string | undefined, now: number): Lacks => {
    ofTurn ??= look()
    const known = account === undefined ? whole.get(gaps) : undefined
    if (known) return known
    const ofGaps = ofTurn.get(gaps) ?? new Map<string | undefined, Lacks>()
    const found = ofGaps.get(account)
    if (found) return found
    const incomplete = incompleteOf({ gaps, health: looked, account, scope: 'wholesale_feed', now })
    const warnings = staleWarnings(everybody)
    const isWhole = incomplete === undefined && warnings.length === 0
    const made = { incomplete, warnings, name: isWhole ? '' : JSON.stringify([incomplete, warnings]) }
    if (isWhole && account === undefined) whole.set(gaps, made)
    ofTurn.set(gaps, ofGaps.set(account, made))
    return made
  }
}

function versionFields({ cacheScope, feedVersion, pricingVersion }: Versions) {
  return {
    cache_scope: cacheScope,
    wholesale_feed_version: feedVersion,
    pricing_version: pricingVersion,
  }
}

function hiddenPrices({ visibility }: Reader): string {
  return visibility === 'metadata' ? ' Prices and activation keys need credentials.' : ''
}

function pageMessage(page: Page, reader: Reader): string {
  if (page.total === 0) return 'No signal matches.'
  const more = page.cursor ? ' Send pagination.cursor for the next page.' : ''
  return `${page.count} of ${howMany(page.total, 'signal')}.${more}${hiddenPrices(reader)}`
}

function lookupMessage({ count, total }: AnswerPage, asked: number, reader: Reader): string {
  const part = count < total ? ` This page has ${count} of them.` : ''
  return `Found ${total} of the ${howMany(asked, 'signal')} asked for.${part}${hiddenPrices(reader)}`
}

export function getSignals(options: GetSignalsOptions): Task<typeof GetSignalsRequest> {
  const { feed, upstreams, discovery, declaredAccounts } = options
  const questionOf = createQuestions()
  const readerOf = createReaders()
  const lacksOf = createLacks(upstreams)
  const told = new WeakMap<Found, { lacks: Lacks; answer: Answer }>()

  function inWords(answer: Found, { cursor }: WholesaleQuery, lacks: Lacks, reader: Reader): Answered {
    const { incomplete, warnings } = lacks
    if (answer.kind === 'unchanged') {
      const message = 'Unchanged: your copy is current.'
      return { kind: 'answer', message, fields: { unchanged: true, incomplete, ...versionFields(answer) } }
    }
    const { cursor: next, total } = answer
    const pagination = { has_more: next !== undefined, cursor: next, total_count: total }
    // Whoever goes on with a walk of larger pages copies the feed: words of five rows were a sixth of the cost of such a page.
    const isCopied = cursor !== undefined && answer.count > IN_WORDS
    return {
      kind: 'answer',
      message: pageMessage(answer, reader),
      fields: { pagination, incomplete, ...versionFields(answer) },
      rows: { field: 'signals', parts: answer.rows, inWords: isCopied ? 0 : IN_WORDS },
      warnings: [...answer.warnings, ...warnings],
    }
  }

  function wholesale(query: WholesaleQuery, reader: Reader, now: number, at?: Moment): Answer {
    const answer = feed.wholesale(query, reader, now, { at, use: 'sent' })
    if (answer.kind === 'refused') return answer
    return inWords(answer, query, lacksOf(answer.gaps, reader.account, now), reader)
  }

  /** The same object as long as the feed's answer and what it lacks are the same objects. */
  function toldAgain(answer: WholesaleAnswer, query: WholesaleQuery, reader: Reader, now: number): Answer {
    if (answer.kind === 'refused') return answer
    const lacks = lacksOf(answer.gaps, reader.account, now)
    const before = told.get(answer)
    if (before?.lacks.name === lacks.name) return before.answer
    const made = { ...inWords(answer, query, lacks, reader), comesAgain: true }
    told.set(answer, { lacks, answer: made })
    return made
  }

  async function lookup(input: GetSignalsRequest, reader: Reader, now: number, at?: Moment): Promise<Answer> {
    const page = await discovery.lookup(input, reader, at)
    if (page.kind === 'refused') return page
    const { fields, rows, warnings, gaps } = page
    const { account } = reader
    return {
      kind: 'answer',
      message: lookupMessage(page, namedSignals(input), reader),
      fields: {
        ...fields,
        incomplete: incompleteOf({ gaps, health: upstreams, account, scope: 'signals', now }),
      },
      ...{ rows, warnings },
    }
  }

  function prepared(
    input: GetSignalsRequest,
    query: WholesaleQuery,
    reader: Reader,
    context: CallContext,
    at?: Moment,
  ) {
    const { now, comesAgain } = context
    if (input.discovery_mode === 'wholesale') {
      const page = () =>
        comesAgain
          ? toldAgain(feed.wholesaleAgain(query, reader, now, at), query, reader, now)
          : wholesale(query, reader, now, at)
      return feed.reading(query, reader, now, at)?.then(page) ?? page()
    }
    const isExact = input.signal_spec === undefined && input.push_notification_config === undefined
    return isExact ? lookup(input, reader, now, at) : discovery.discover(input, reader, context, at)
  }

  /** A walk may have begun at another process: look for its snapshot before giving it up. */
  function answer(
    input: GetSignalsRequest,
    query: WholesaleQuery,
    reader: Reader,
    context: CallContext,
  ): Answer | Promise<Answer> {
    const isWalk = input.discovery_mode === 'wholesale' && query.cursor !== undefined
    const recalled = isWalk ? options.recall?.(query, reader, context.now) : undefined
    return recalled
      ? recalled.then((isKnown) => (isKnown ? answerHere(input, query, reader, context) : CUT_OFF))
      : answerHere(input, query, reader, context)
  }

  function answerHere(
    input: GetSignalsRequest,
    query: WholesaleQuery,
    reader: Reader,
    context: CallContext,
  ): Answer | Promise<Answer> {
    const known = context.comesAgain ? feed.known(query, reader, context.now) : undefined
    if (known) return toldAgain(known, query, reader, context.now)
    const due = feed.preparing(query, reader, context.now)
    if (!due) return prepared(input, query, reader, context)
    const { at, work } = due
    if (work.next().done) return prepared(input, query, reader, context, at)
    return inTurns(work).then(() => prepared(input, query, reader, context, at))
  }

  function handle(input: GetSignalsRequest, context: CallContext): Answer | Promise<Answer> {
    const { broken, query } = questionOf(input, context)
    if (broken.length > 0) return { kind: 'refused', error: invalidRequest(broken) }
    const { caller } = context
    const wholeOnly = context.release === '3.0'
    if (wholeOnly && caller.visibility === 'metadata') return PRICES_NEEDED
    const read = (overlay?: string) => answer(input, query, readerOf(caller, wholeOnly, overlay), context)
    if (input.account === undefined) return read()
    const seen = (found: AccountFound) => (found.kind === 'refused' ? found : read(found.overlay))
    const found = findAccount(caller, input.account, declaredAccounts)
    return found instanceof Promise ? found.then(seen) : seen(found)
  }

  return {
    name: 'get_signals',
    title: 'Discover signals',
    description:
      'Finds audience and contextual targeting signals, with who sells them, where each can be activated, what it ' +
      'covers and what it costs. To copy or enumerate everything, send discovery_mode "wholesale" with ' +
      'pagination.max_results (at most 100) and follow pagination.cursor until has_more is false; keep ' +
      'wholesale_feed_version and send it as if_wholesale_feed_version next time: an unchanged feed answers at once ' +
      'without rows. To look signals up, send signal_refs. ' +
      'To search, send signal_spec in plain words; signal_refs with it refines an earlier result. ' +
      'Narrow with filters, destinations and countries; ask for definition details with fields. ' +
      'Use signal_agent_segment_id of a signal, unchanged, in activate_signal.',
    request: GetSignalsRequest,
    response: GetSignalsResponse,
    mutating: false,
    handle,
  }
}
