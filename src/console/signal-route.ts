/**
 * One signal for people. A caller is shown its row, as get_signals gives it. An operator is also shown why the signal is,
 * or is not, in the feed, what each seller and the provider say of it in their own words, and which callers see it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { Judge, ProviderState } from '../authz/rules/verdict.js'
import { createRowPieces } from '../briefs/corpus.js'
import type { Feed } from '../feed/feed.js'
import { handleKey, signalPart } from '../merge/identity.js'
import { entryOf, type Snapshot, standingListings } from '../snapshot/snapshot.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { DeclaredAccounts } from '../tasks/read-account.js'
import type { Entrance } from './entrance.js'
import { visitorReader } from './feed-routes.js'

const MOST_FILE = 1024 * 1024 // bytes; parsing a larger file would block the serving thread
const MOST_TEXT = 4_000 // characters of one place

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

const MOST_CALLERS = 50
/** Members of a listing that do not describe the signal: its ids, where it can be used, what it costs. */
const NOT_WORDS = new Set([
  'signal_ref',
  'signal_id',
  'signal_agent_segment_id',
  'deployments',
  'pricing_options',
])

type Explained = { kind: string; explanation?: object }

export type SignalRouteOptions = {
  entrance: Entrance
  feed: Pick<Feed, 'see' | 'prepared'>
  declaredAccounts: DeclaredAccounts
  /** Why it is in the feed or not (explain/explain.ts); with a caller, also as that caller sees it. */
  explain(question: { ref: string; caller?: string }): Promise<Explained>
  /** What happened to it, oldest first. Rejects with `StorageUnavailable`. */
  changesOf(handle: string): Promise<readonly object[]>
  judge(): Judge
  providerState(domain: string): ProviderState | undefined
  /** Ids of the callers of the configuration. */
  callerIds(): readonly string[]
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

/** `/console/api/signal`, for every caller with a key (docs/console.md). */
export function addSignalRoute(app: FastifyInstance, options: SignalRouteOptions): void {
  const { entrance, feed, declaredAccounts, explain, changesOf, judge, providerState, callerIds } = options

  async function viewOf(ref: string, caller: string): Promise<object | undefined> {
    const { explanation } = await explain({ ref, caller })
    return isRecord(explanation) && isRecord(explanation.view) ? explanation.view : undefined
  }

  /** Without the changes while the storage cannot serve: the rest of the page is shown all the same. */
  async function changesIfKnown(handle: string): Promise<{ changes?: readonly object[] }> {
    try {
      return handleKey(handle) ? { changes: await changesOf(handle) } : {}
    } catch (error) {
      if (error instanceof StorageUnavailable) return {}
      throw error
    }
  }

  async function forOperator(
    id: string,
    found: { snapshot: Snapshot; entry: number } | undefined,
    row: unknown,
    signal: AbortSignal,
  ) {
    const { explanation } = await explain({ ref: id })
    const ref = isRecord(row) ? row.signal_ref : undefined
    const domain = isRecord(ref) ? ref.data_provider_domain : undefined
    const state = typeof domain === 'string' ? providerState(domain) : undefined
    const views: (object | undefined)[] = []
    for (const caller of callerIds().slice(0, MOST_CALLERS)) {
      await nextTurn() // each explains the signal anew
      signal.throwIfAborted()
      views.push(await viewOf(id, caller))
    }
    const handle = isRecord(row) ? String(row.signal_agent_segment_id) : signalPart(id)
    return {
      explanation,
      ...(await changesIfKnown(handle)),
      ...(found && saidOf(found.snapshot, found.entry, judge(), ref)),
      evidence: evidenceTexts(state, pointersIn(explanation)),
      seen_by: views.filter((view) => view !== undefined),
    }
  }

  app.get(
    '/console/api/signal',
    entrance.forCallers(async ({ caller }, request, reply) => {
      const params = new URL(request.url, 'http://localhost').searchParams
      const [id, account] = [params.get('id') ?? '', params.get('account') || undefined]
      const visitor = await visitorReader(caller, account, declaredAccounts)
      if (visitor.kind === 'bad') return reply.code(400).send(visitor.problem)
      const { reader } = visitor
      return entrance.untilLeft(reply, async (signal) => {
        const seen = feed.see({}, reader, { at: await feed.prepared({}, reader, signal) })
        const entry = seen ? entryOf(seen.snapshot, id) : -1
        const isShown = seen !== undefined && entry >= 0 && seen.snapshot.rows.length[entry] !== 0
        const pieces = seen && createRowPieces({ feed: seen.snapshot }, { criteria: seen.criteria, reader })
        const row = isShown ? pieces?.row(entry) : undefined
        const found = isShown ? { snapshot: seen.snapshot, entry } : undefined
        const more = caller.role === 'operator' ? await forOperator(id, found, row, signal) : undefined
        if (!row && !more)
          return reply.code(404).send({ error: 'Invalid id: there is no such signal', parameter: 'id' })
        return {
          ...(row && {
            signal: row,
            get_signals: {
              signal_refs: [row.signal_ref],
              ...(account !== undefined && { account: { account_id: account } }),
            },
          }),
          ...more,
        }
      })
    }),
  )
}
