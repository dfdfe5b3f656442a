/**
 * What agents said in answers to questions, as it stands at this moment: only of agents that are in the roster, answer, and are
 * asked for the reader as they were asked then; with prices that were told to our credential alone only while the operator shows
 * them to all; judged by the providers' current files; merged with what the current feed has.
 * Whoever shows such rows takes them from here each time, and keeps only what was said. What was put together once is used again
 * until the feed, an agent or a provider says something else. Rows are read once: none of these changes what they say.
 */
import type { AccountReference } from '../adcp/caller.js'
import type { Judge } from '../authz/rules/verdict.js'
import type { Reader } from '../feed/query.js'
import { inTurns, nextPortion } from '../process/portion-turns.js'
import { createMeter, type InPortions, rowUnits } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { FoundRow } from '../store/records/found.js'
import type { Auth, UpstreamFailure } from '../upstreams/agent/agent.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster } from '../upstreams/roster/roster.js'
import { bareRows } from '../upstreams/rows/bare-rows.js'
import { type FoundSlice, foundSlice } from '../upstreams/rows/found-slice.js'
import { readRows } from '../upstreams/rows/read-rows.js'
import type { Slice } from '../upstreams/rows/slice.js'
import { showsPrices } from '../upstreams/walk/account-prices.js'
import { type Corpus, foundRows, gatherFindings } from './corpus.js'

/** The upstream cannot be read for the public feed, but may answer a buyer's own question, or with a buyer's account. */
const ONLY_ASKED: ReadonlySet<UpstreamFailure | undefined> = new Set(['not_enumerable', 'account_needed'])

/**
 * How an upstream is asked for a reader; without `auth`, with the configured credential. Equal scopes, equal access: the name of an
 * account may come to stand for another one.
 */
export type Access = { scope: string; account?: AccountReference; auth?: Auth }

/** Whether questions are the only way to its signals. */
export const isOnlyAsked = ({ problem }: UpstreamStatus): boolean => ONLY_ASKED.has(problem?.reason)

/**
 * Whether it is worth asking: it answers, or questions are the only way to its signals
 * (docs/protocol.md#how-agents-differ: brief-only agents).
 */
export const isAskable = (status: UpstreamStatus): boolean => status.state !== 'absent' || isOnlyAsked(status)

export type StandingOptions = {
  upstreams: { statuses(): readonly UpstreamStatus[]; roster(): Pick<Roster, 'entries'> }
  access(reader: Reader, agentUrl: string): Access
  /** What providers say at this moment. */
  judge(): Judge
}

/** Who said something, in whose scope it was asked, and to whom alone its prices are told. */
type Source = Pick<Slice, 'agentUrl' | 'scope' | 'pricedFor'>

/** What was put together, and what that rests on: who said it, the feed, and who these agents are. */
type Made = { sources: readonly Source[]; feed: string; agents: string; extra: Snapshot | undefined }

/** What is known of rows: as slices, once they were read, and what was last put together of them. */
type Known = Made & { slices?: readonly FoundSlice[] }

const nameOf = ({ agentUrl, scope, pricedFor }: Source) => JSON.stringify([agentUrl, scope, pricedFor])

/** Each source once. What is kept of them keeps no rows. */
function sourcesOf(slices: readonly FoundSlice[]): Source[] {
  const sources = slices.map(({ agentUrl, scope, pricedFor }) => ({
    ...{ agentUrl, scope },
    ...(pricedFor !== undefined && { pricedFor }),
  }))
  return [...new Map(sources.map((source) => [nameOf(source), source])).values()]
}

/** Rows of one source. */
function sliceOf(rows: readonly FoundRow[]): FoundSlice {
  const [{ agentUrl, scope, pricedFor }] = rows as readonly [FoundRow]
  const read = readRows(rows.map(({ listing }) => Buffer.from(listing)))
  return foundSlice({ agentUrl, scope }, pricedFor === undefined ? read : { ...read, pricedFor }, 0)
}

/** Rows as slices of the agents that gave them; one slice for each portion of an agent's rows. */
function* foundSlices(rows: readonly FoundRow[]): InPortions<FoundSlice[]> {
  const meter = createMeter()
  const bySource = new Map<string, Map<string, FoundRow>>()
  for (const row of rows) {
    const name = nameOf(row)
    const own = bySource.get(name) ?? new Map<string, FoundRow>()
    bySource.set(name, own.set(row.segment, row)) // one handle stands for one signal
    meter.did(rowUnits(0))
    if (meter.isDue()) yield
  }
  const slices: FoundSlice[] = []
  for (const own of bySource.values()) {
    const portion: FoundRow[] = []
    for (const row of own.values()) {
      portion.push(row)
      meter.did(rowUnits(row.listing.length))
      if (!meter.isDue()) continue
      slices.push(sliceOf(portion.splice(0)))
      yield
    }
    if (portion.length > 0) slices.push(sliceOf(portion))
  }
  return slices
}

export function createStanding({ upstreams, access, judge }: StandingOptions) {
  const works = new WeakMap<readonly FoundRow[], Promise<Known>>()

  /** As of now: the agents that stand for the reader, by url, and the sources without their prices. `name`: of all that. */
  function standingFor(sources: readonly Source[], reader: Reader) {
    const named = new Set(sources.map(({ agentUrl }) => agentUrl))
    const there = upstreams.statuses().filter((one) => named.has(one.agentUrl) && isAskable(one))
    const agents = new Map(
      there.map(({ id, agentUrl }) => [agentUrl, { id, scope: access(reader, agentUrl).scope }]),
    )
    const entries = new Map(upstreams.roster().entries.map((entry) => [entry.agentUrl, entry]))
    function isPriced({ agentUrl, pricedFor }: Source): boolean {
      const entry = entries.get(agentUrl)
      return pricedFor === undefined || (entry !== undefined && showsPrices(pricedFor, entry))
    }
    const hidden = new Set(sources.filter((source) => !isPriced(source)).map(nameOf))
    return { agents, hidden, name: JSON.stringify([...agents, ...hidden]) }
  }

  /** Whether all providers say what they said when it was built. */
  function isAsJudged({ stamps }: Snapshot): boolean {
    const current = judge()
    return [...stamps].every(([domain, stamp]) => current(domain).stamp === stamp)
  }

  /**
   * Puts slices together with the feed as they stand at the moment of the call; what changes meanwhile counts the next time.
   * `previous`: an `extra` snapshot of some of them.
   */
  async function putTogether(
    feed: Snapshot,
    slices: readonly FoundSlice[],
    reader: Reader,
    previous: Snapshot | undefined,
  ) {
    const sources = sourcesOf(slices)
    const [{ agents, hidden, name }, judged] = [standingFor(sources, reader), judge()]
    const standing: Slice[] = []
    const places = slices.map((said): number | undefined => {
      const agent = agents.get(said.agentUrl)
      return agent?.scope === said.scope ? standing.push({ ...said, upstream: agent.id }) - 1 : undefined
    })
    for (const [at, own] of standing.entries()) {
      if (!hidden.has(nameOf(own))) continue
      await nextPortion()
      standing[at] = { ...own, ...(await bareRows(own, ['pricing'])) }
    }
    const findings = await gatherFindings(feed, standing, judged, previous)
    const made: Made = { sources, feed: feed.id, agents: name, extra: findings.corpus.extra }
    return { made, findings, lists: places.map((at) => (at === undefined ? [] : (findings.lists[at] ?? []))) }
  }

  /**
   * Answers that have just arrived, in one corpus with the feed; a list of hits for each of them, in their order. `rows`: those
   * that the feed lacks, as they are kept. `previous`: the `extra` snapshot of when fewer of them had arrived.
   */
  async function gather(feed: Snapshot, slices: readonly FoundSlice[], reader: Reader, previous?: Snapshot) {
    const { made, findings, lists } = await putTogether(feed, slices, reader, previous)
    const rows = await foundRows(findings)
    works.set(rows, Promise.resolve(made))
    return { corpus: findings.corpus, rows, lists }
  }

  async function madeAnew(
    feed: Snapshot,
    rows: readonly FoundRow[],
    reader: Reader,
    before: Known | undefined,
  ): Promise<Known> {
    const slices = before?.slices ?? (await inTurns(foundSlices(rows)))
    const { made } = await putTogether(feed, slices, reader, before?.extra)
    return { ...made, slices }
  }

  function begin(...[feed, rows, ...rest]: Parameters<typeof madeAnew>): Promise<Known> {
    const work = madeAnew(feed, rows, ...rest)
    works.set(rows, work)
    work.catch(() => works.delete(rows))
    return work
  }

  /** Whether it would be the same if it were put together now. */
  const isAsNow = ({ sources, feed, agents, extra }: Known, current: Snapshot, reader: Reader): boolean =>
    feed === current.id &&
    agents === standingFor(sources, reader).name &&
    (extra === undefined || isAsJudged(extra))

  /**
   * What was said earlier, in one corpus with the feed. The same rows are best given as the same array: one work at a time is done
   * with it, and who asks meanwhile has its result if it is still as now.
   */
  async function corpusOf(feed: Snapshot, rows: readonly FoundRow[], reader: Reader): Promise<Corpus> {
    if (rows.length === 0) return { feed }
    for (;;) {
      const work = works.get(rows)
      const before = await work
      if (works.get(rows) !== work) continue // somebody else has begun
      const isKnown = before && isAsNow(before, feed, reader)
      const { extra } = isKnown ? before : await begin(feed, rows, reader, before)
      return { feed, ...(extra && { extra }) }
    }
  }

  return { gather, corpusOf }
}

export type WhatStands = ReturnType<typeof createStanding>
