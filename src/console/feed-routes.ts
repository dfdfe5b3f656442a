/**
 * The feed for people who browse: the rows of a page, and how many signals each value of a facet has. Both read the query
 * string that the page itself shows (console/feed-question.ts).
 */
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import { type Corpus, createRowPieces } from '../briefs/corpus.js'
import type { Rates, Reader } from '../feed/query.js'
import { handleKey } from '../merge/identity.js'
import { inTurns } from '../process/portions.js'
import { countBelow, findKey, putKey, WORDS } from '../snapshot/keys.js'
import { handleAt, type Snapshot } from '../snapshot/snapshot.js'
import { type DeclaredAccounts, findAccount } from '../tasks/read-account.js'
import type { Entrance } from './entrance.js'
import { counted, FACETS, withoutFacet } from './facets.js'
import {
  type Bad,
  bad,
  type FeedQuestion,
  type Find,
  type Found,
  readFeedQuestion,
  type Sort,
} from './feed-question.js'
import { nameOrder, nextInOrder, type OrderPlace, orderValue } from './in-order.js'

type FeedRoutesOptions = {
  entrance: Entrance
  find: Find
  rates(): Rates | undefined
  declaredAccounts: DeclaredAccounts
}

const NOT_READY = { error: 'The first snapshot of the feed is still being built' }

/** The reader that the caller's get_signals would have; `bad` for an account that is not the caller's. */
export async function visitorReader(
  caller: Caller,
  account: string | undefined,
  declared: DeclaredAccounts,
): Promise<{ kind: 'reader'; reader: Reader } | Bad> {
  const { id, visibility, destinations: grants } = caller
  const reader: Reader = { caller: id, visibility, grants }
  if (account === undefined) return { kind: 'reader', reader }
  const found = await findAccount(caller, { account_id: account }, declared)
  if (found.kind === 'refused') return bad('account', 'the caller has no account of this id')
  const { overlay } = found
  return { kind: 'reader', reader: { ...reader, ...(overlay !== undefined && { account: overlay }) } }
}

/** A place in an order as text: its value and the signal's handle, which stays the same in later snapshots. */
function placeText(snapshot: Snapshot, { value, entry }: OrderPlace): string {
  return `${value} ${handleAt(snapshot, entry)}`
}

function placeAfter(snapshot: Snapshot, text: string | undefined): OrderPlace | undefined {
  const [value = '', handle = ''] = text?.split(' ') ?? []
  const bytes = handleKey(handle)
  if (!bytes || !Number.isFinite(Number(value))) return undefined
  const key = new Uint32Array(WORDS)
  putKey(key, 0, bytes)
  const found = findKey(snapshot.keys, snapshot.count, key)
  return {
    value: Number(value),
    entry: found >= 0 ? found : countBelow(snapshot.keys, snapshot.count, key) - 0.5,
  }
}

/** The order of the feed page: by relevance when words are looked for, otherwise by coverage, unless another is asked for. */
function orderOf({ sort, text }: FeedQuestion): Sort {
  return sort ?? (text === '' ? 'coverage' : 'relevance')
}

type PageOfHits = { hits: number[]; next: string | undefined }

async function pageOf(
  { seen: { snapshot }, entries }: Found,
  question: FeedQuestion,
  rates: Rates | undefined,
  signal: AbortSignal,
): Promise<PageOfHits> {
  const { after, limit } = question
  const sort = orderOf(question)
  const value = await (sort === 'name'
    ? nameOrder(snapshot, signal)
    : inTurns(orderValue(snapshot, sort, rates), signal))
  if (!value) {
    const from = Math.max(0, Number.parseInt(after ?? '0', 10) || 0)
    const next = from + limit < entries.length ? String(from + limit) : undefined
    return { hits: [...entries.subarray(from, from + limit)], next }
  }
  const work = nextInOrder(entries, value, placeAfter(snapshot, after), limit + 1)
  const places = await inTurns(work, signal)
  const last = places[limit - 1]
  const next = places.length > limit && last ? placeText(snapshot, last) : undefined
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
    entrance.forCallers(async ({ caller }, request, reply) => {
      const read = readFeedQuestion(new URL(request.url, 'http://localhost').searchParams)
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
        ...{ sort: orderOf(question), get_signals: asGetSignals(question) },
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
      const { snapshot } = found.seen
      const whole = counted(snapshot, found.entries, open, question.selection.countries)
      const facets = await inTurns(whole, signal)
      for (const { facet, wider } of chosen) {
        const others = await find(wider, reader, signal)
        if (!others) continue
        const work = counted(others.seen.snapshot, others.entries, [facet], wider.selection.countries)
        Object.assign(facets, await inTurns(work, signal))
      }
      return { snapshot: snapshot.id, total: found.total, counted: found.entries.length, facets }
    }),
  )
}
