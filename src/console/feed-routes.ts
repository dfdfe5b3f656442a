/**
 * The feed for people who browse: the rows of a page, how many signals each value of a facet has, and one signal. Rows and facets
 * read the query string that the page itself shows (console/feed-question.ts). Of one signal a caller is shown its row, as
 * get_signals gives it. An operator is also shown why the signal is, or is not, in the feed, what each seller and the provider
 * say of it in their own words, and which callers see it.
 */
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type DeclaredAccounts, findAccount, ownReader } from '../activation/accounts.js'
import type { Caller } from '../adcp/caller.js'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { Judge, ProviderState } from '../authz/rules/verdict.js'
import { type Corpus, createRowPieces } from '../briefs/corpus.js'
import type { Feed } from '../feed/feed.js'
import type { Rates, Reader } from '../feed/query.js'
import { handleKey, signalPart } from '../merge/identity.js'
import { countBelow, findKey } from '../merge/keys.js'
import { inTurns, nextPortion } from '../process/portion-turns.js'
import { createMeter } from '../process/portions.js'
import { sendLargeJson } from '../server/answer/large-json.js'
import { entryOf, handleAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { Entrance } from './entrance.js'
import { counted, FACETS, withoutFacet } from './facets.js'
import { type Bad, bad, type FeedQuestion, type Find, type Found, readFeedQuestion } from './feed-question.js'
import {
  byValue,
  foundOrder,
  nameOrder,
  nextInOrder,
  type OrderPlace,
  orderValue,
  providerOrder,
  type RowOrder,
  type RowReading,
} from './in-order.js'

const MOST_FILE = 1024 * 1024 // bytes; parsing a larger file would block the serving thread
const MOST_TEXT = 4_000 // characters of one place
const MOST_CALLERS = 50
/** Members of a listing that do not describe the signal: its ids, where it can be used, what it costs. */
const NOT_WORDS = new Set([
  'signal_ref',
  'signal_id',
  'signal_agent_segment_id',
  'deployments',
  'pricing_options',
])

type FeedRoutesOptions = {
  entrance: Entrance
  find: Find
  rates(): Rates | undefined
  declaredAccounts: DeclaredAccounts
}

const NOT_READY = { error: 'The first snapshot of the feed is still being built' }

/** The reader that the caller's get_signals would have; `bad` for an account that is not the caller's. */
async function visitorReader(
  caller: Caller,
  account: string | undefined,
  declared: DeclaredAccounts,
): Promise<{ kind: 'reader'; reader: Reader } | Bad> {
  if (account === undefined) return { kind: 'reader', reader: ownReader(caller, undefined) }
  const found = await findAccount(caller, { account_id: account }, declared)
  if (found.kind === 'refused') return bad('account', 'the caller has no account of this id')
  return { kind: 'reader', reader: ownReader(caller, found.overlay) }
}

function orderOf(
  { sort, text }: FeedQuestion,
  { seen: { snapshot }, entries }: Found,
  reading: RowReading,
  signal: AbortSignal,
): Promise<RowOrder> | RowOrder {
  if (sort === 'name') return nameOrder(snapshot, signal)
  if (sort === 'provider') return inTurns(providerOrder(snapshot), signal)
  if (sort !== 'relevance') return byValue(orderValue(snapshot, sort, reading))
  // Without words that they match, all are found in the order of their handles.
  return text === '' ? byValue(() => 0) : foundOrder(entries)
}

/** Where a row stood that may have left since. */
function placeIn(
  { keys, count }: Snapshot,
  order: RowOrder,
  { word, key }: { word: string; key: Uint32Array },
): OrderPlace {
  const found = findKey(keys, count, key)
  const entry = found >= 0 ? found : countBelow(keys, count, key) - 0.5
  return { value: order.valueOf(word, entry), entry }
}

type PageOfHits = { hits: number[]; next: string | undefined }

async function pageOf(
  found: Found,
  question: FeedQuestion,
  rates: Rates | undefined,
  signal: AbortSignal,
): Promise<PageOfHits> {
  const { after, limit } = question
  const { seen, entries } = found
  const { snapshot, criteria } = seen
  const meter = createMeter()
  const order = await orderOf(question, found, { countries: criteria.countries, rates, meter }, signal)
  const begun = after && placeIn(snapshot, order, after)
  const places = await inTurns(nextInOrder(entries, order.value, begun, limit + 1, meter), signal)
  const last = places[limit - 1]?.entry
  const isLast = last === undefined || places.length <= limit
  const next = isLast ? undefined : `${order.wordOf(last)} ${handleAt(snapshot, last)}`
  return { hits: places.slice(0, limit).map(({ entry }) => entry), next }
}

/** The arguments of get_signals that ask for the same: in wholesale mode, or in brief mode when words are looked for. */
function asGetSignals({ asked, text, account }: FeedQuestion): object {
  return {
    ...(text === '' ? { discovery_mode: 'wholesale' } : { signal_spec: text }),
    ...asked,
    ...(account !== undefined && { account: { account_id: account } }),
  }
}

type Looked = { question: FeedQuestion; reader: Reader; found: Found; signal: AbortSignal }

/** `/console/api/signals` and `/console/api/facets`, for every caller with a key (docs/console.md). */
export function addFeedRoutes(app: FastifyInstance, options: FeedRoutesOptions): void {
  const { entrance, find, rates, declaredAccounts } = options

  /** What both routes begin with: the question is read, the reader is known, and what it finds is there. */
  const answering = (answer: (looked: Looked, reply: FastifyReply) => Promise<unknown>) =>
    entrance.forCallers(async ({ caller }, _request, reply, params) => {
      const read = readFeedQuestion(params)
      if (read.kind === 'bad') return reply.code(400).send(read.problem)
      const { question } = read
      const visitor = await visitorReader(caller, question.account, declaredAccounts)
      if (visitor.kind === 'bad') return reply.code(400).send(visitor.problem)
      const { reader } = visitor
      return entrance.untilLeft(reply, async (signal) => {
        const found = await find(question, reader, signal)
        if (!found) return reply.code(503).header('retry-after', '1').send(NOT_READY)
        return answer({ question, reader, found, signal }, reply)
      })
    })

  app.get(
    '/console/api/signals',
    answering(async ({ question, reader, found, signal }, reply) => {
      const { seen, total } = found
      const { hits, next } = await pageOf(found, question, rates(), signal)
      const corpus: Corpus = { feed: seen.snapshot }
      const pieces = createRowPieces(corpus, { criteria: seen.criteria, reader })
      const head = {
        ...{ snapshot: seen.snapshot.id, total, ...(next !== undefined && { next }) },
        ...{ sort: question.sort, get_signals: asGetSignals(question) },
        ...{ wholesale_feed_version: seen.versions.feedVersion, warnings: seen.warnings },
      }
      const text = Buffer.concat([
        Buffer.from(`${JSON.stringify(head).slice(0, -1)},"signals":[`),
        ...pieces.rows(hits),
        Buffer.from(']}'),
      ])
      return reply.header('content-type', 'application/json; charset=utf-8').send(text)
    }),
  )

  app.get(
    '/console/api/facets',
    answering(async ({ question, reader, found, signal }) => {
      const chosen = FACETS.flatMap((facet) => {
        const wider = withoutFacet(question, facet)
        return wider ? [{ facet, wider }] : []
      })
      const open = FACETS.filter((facet) => !chosen.some((one) => one.facet === facet))
      const facets = await inTurns(counted(found, open, question.selection, rates()), signal)
      for (const { facet, wider } of chosen) {
        const others = await find(wider, reader, signal)
        if (!others) continue
        const work = counted(others, [facet], wider.selection, rates())
        Object.assign(facets, await inTurns(work, signal))
      }
      return { snapshot: found.seen.snapshot.id, total: found.total, counted: found.entries.length, facets }
    }),
  )
}

/** The value at an RFC 6901 pointer; undefined when there is none. */
function at(value: unknown, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((from, name) => {
      return Array.isArray(from) || isRecord(from) ? (from as Record<string, unknown>)[name] : undefined
    }, value)
}

/**
 * The parts of a provider's adagents.json that a verdict rests on, as JSON text. Empty when the file is not held, or is too
 * large to parse here.
 */
function evidenceTexts(
  state: ProviderState | undefined,
  pointers: readonly string[],
): { at: string; text: string }[] {
  const bytes = state?.document?.bytes
  if (!bytes || bytes.byteLength > MOST_FILE || pointers.length === 0) return []
  const file = tryParseJson(bytes)
  return [...new Set(pointers)].flatMap((pointer) => {
    const text = JSON.stringify(at(file, pointer), null, 2)
    return text === undefined ? [] : [{ at: pointer, text: text.slice(0, MOST_TEXT) }]
  })
}

type Explained = { kind: string; explanation?: object }

type SignalFactsOptions = {
  /** Why it is in the feed or not (explain/explain.ts); with a caller, also as that caller sees it. */
  explain(question: { ref: string; caller?: string }): Promise<Explained>
  /** What happened to it, oldest first; undefined where that is not told soon. Rejects with `StorageUnavailable`. */
  changesOf(handle: string, signal: AbortSignal): Promise<readonly object[] | undefined>
  judge(): Judge
  providerState(domain: string): ProviderState | undefined
  /** Ids of the callers of the configuration. */
  callerIds(): readonly string[]
}

export type SignalRouteOptions = SignalFactsOptions & {
  entrance: Entrance
  feed: Pick<Feed, 'see' | 'prepared'>
  declaredAccounts: DeclaredAccounts
}

function wordsOf(listing: object): object {
  return Object.fromEntries(Object.entries(listing).filter(([name]) => !NOT_WORDS.has(name)))
}

/** What each seller says of the signal, and the provider's own definition. */
function saidOf(snapshot: Snapshot, entry: number, judge: Judge, ref: unknown) {
  const sources = standingListings(snapshot, entry).map(({ agentUrl, slice, listing }) => {
    return { upstream: slice.upstream, agent_url: agentUrl, words: wordsOf(listing) }
  })
  if (!isRecord(ref) || typeof ref.data_provider_domain !== 'string') return { sources }
  const definition = judge(ref.data_provider_domain).definition(String(ref.signal_id))
  return { sources, ...(definition && { definition }) }
}

/** RFC 6901 pointers of all grants in an explanation, at whatever depth. */
function pointersIn(explanation: unknown): string[] {
  if (Array.isArray(explanation)) return explanation.flatMap(pointersIn)
  if (!isRecord(explanation)) return []
  const { grants } = explanation
  const own = Array.isArray(grants) ? grants.map((grant) => (isRecord(grant) ? String(grant.at) : '')) : []
  return [...own, ...Object.values(explanation).flatMap(pointersIn)]
}

/** What operators are shown of a signal besides its row. */
function createSignalFacts(options: SignalFactsOptions) {
  const { explain, changesOf, judge, providerState, callerIds } = options

  async function viewOf(ref: string, caller: string): Promise<object | undefined> {
    const { explanation } = await explain({ ref, caller })
    return isRecord(explanation) && isRecord(explanation.view) ? explanation.view : undefined
  }

  /** Without the changes while the storage cannot serve: the rest of the page is shown all the same. */
  async function changesIfKnown(handle: string, signal: AbortSignal): Promise<readonly object[] | undefined> {
    try {
      return handleKey(handle) ? await changesOf(handle, signal) : undefined
    } catch (error) {
      if (error instanceof StorageUnavailable) return undefined
      throw error
    }
  }

  return async (
    id: string,
    found: { snapshot: Snapshot; entry: number } | undefined,
    row: unknown,
    signal: AbortSignal,
  ) => {
    const { explanation } = await explain({ ref: id })
    const ref = isRecord(row) ? row.signal_ref : undefined
    const domain = isRecord(ref) ? ref.data_provider_domain : undefined
    const state = typeof domain === 'string' ? providerState(domain) : undefined
    const views: (object | undefined)[] = []
    for (const caller of callerIds().slice(0, MOST_CALLERS)) {
      await nextPortion() // each explains the signal anew
      signal.throwIfAborted()
      views.push(await viewOf(id, caller))
    }
    const handle = isRecord(row) ? String(row.signal_agent_segment_id) : signalPart(id)
    const changes = await changesIfKnown(handle, signal)
    return {
      explanation,
      ...(changes && { changes }),
      ...(found && saidOf(found.snapshot, found.entry, judge(), ref)),
      evidence: evidenceTexts(state, pointersIn(explanation)),
      seen_by: views.filter((view) => view !== undefined),
    }
  }
}

/** `/console/api/signal`, for every caller with a key (docs/console.md). */
export function addSignalRoute(app: FastifyInstance, options: SignalRouteOptions): void {
  const { entrance, feed, declaredAccounts } = options
  const factsOf = createSignalFacts(options)

  app.get(
    '/console/api/signal',
    entrance.forCallers(async ({ caller }, _request, reply, params) => {
      const [id, account] = [params.get('id') ?? '', params.get('account') || undefined]
      const visitor = await visitorReader(caller, account, declaredAccounts)
      if (visitor.kind === 'bad') return reply.code(400).send(visitor.problem)
      const { reader } = visitor
      return entrance.untilLeft(reply, async (signal) => {
        const seen = feed.see({}, reader, { at: await feed.prepared({}, reader, signal) })
        const entry = seen ? entryOf(seen.snapshot, id) : -1
        const pieces = seen && createRowPieces({ feed: seen.snapshot }, { criteria: seen.criteria, reader })
        const row = entry >= 0 ? pieces?.row(entry) : undefined
        const found = seen && entry >= 0 ? { snapshot: seen.snapshot, entry } : undefined
        const more = caller.role === 'operator' ? await factsOf(id, found, row, signal) : undefined
        if (!seen && !more) return reply.code(503).header('retry-after', '1').send(NOT_READY)
        if (!row && !more)
          return reply.code(404).send({ error: 'Invalid id: there is no such signal', parameter: 'id' })
        const answer = {
          ...(row && {
            signal: row,
            get_signals: {
              signal_refs: [row.signal_ref],
              ...(account !== undefined && { account: { account_id: account } }),
            },
          }),
          ...more,
        }
        return sendLargeJson(reply, answer, signal)
      })
    }),
  )
}
