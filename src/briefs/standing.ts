/**
 * What agents said in answers to questions, as it stands at this moment: only of agents that are in the roster, answer, and are
 * asked for the reader as they were asked then; with prices that were told to our credential alone only while the operator shows
 * them to all; judged by the providers' current files; merged with what the current feed has.
 * Whoever shows such rows takes them from here each time, and keeps only what was said. What was put together once is used again
 * until the feed, an agent or a provider says something else.
 */
import type { AccountReference } from '../adcp/caller.js'
import type { Judge } from '../authz/rules/verdict.js'
import type { Reader } from '../feed/query.js'
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
import { type Corpus, type Findings, gatherFindings } from './corpus.js'

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

/** What rows became, and what that rests on: the feed, and who the agents are. */
type Made = { feed: string; agents: string; extra: Snapshot | undefined }

/** Rows as the slices of the agents that gave them. */
function foundSlices(rows: readonly FoundRow[]): FoundSlice[] {
  const bySource = new Map<string, FoundRow[]>()
  for (const row of rows) {
    const source = JSON.stringify([row.agentUrl, row.scope, row.pricedFor])
    const others = bySource.get(source)
    if (others) others.push(row)
    else bySource.set(source, [row])
  }
  return [...bySource.values()].map((own) => {
    const [{ agentUrl, scope, pricedFor }] = own as [FoundRow, ...FoundRow[]]
    const read = readRows(own.map(({ listing }) => Buffer.from(listing)))
    return foundSlice({ agentUrl, scope }, pricedFor === undefined ? read : { ...read, pricedFor }, 0)
  })
}

export function createStanding({ upstreams, access, judge }: StandingOptions) {
  const made = new WeakMap<readonly FoundRow[], Made>()

  /** As of now: `standing` gives what was said as it stands for the reader, nothing where it does not. */
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
    async function standing(said: FoundSlice): Promise<Slice[]> {
      const agent = agents.get(said.agentUrl)
      if (agent?.scope !== said.scope) return []
      const own = { ...said, upstream: agent.id }
      return [isPriced(said) ? own : { ...own, ...(await bareRows(said, ['pricing'])) }]
    }
    /** What this rests on, for some of the sources: by whom it is said, and whose prices are withheld. */
    function restsOn(some: readonly Source[]): string {
      const urls = new Set(some.map(({ agentUrl }) => agentUrl))
      const own = [...agents].filter(([url]) => urls.has(url))
      const hidden = some.filter((source) => !isPriced(source))
      const names = new Set(hidden.map(({ agentUrl, pricedFor }) => `${agentUrl} ${pricedFor}`))
      return JSON.stringify([...own, ...names])
    }
    return { standing, restsOn }
  }

  /** Whether all providers say what they said when it was built. */
  function isAsJudged({ stamps }: Snapshot): boolean {
    const current = judge()
    return [...stamps].every(([domain, stamp]) => current(domain).stamp === stamp)
  }

  /**
   * Answers that have just arrived, in one corpus with the feed; a list of hits for each of them, in their order. `previous`: the
   * `extra` snapshot of when fewer of them had arrived.
   */
  async function gather(
    feed: Snapshot,
    slices: readonly FoundSlice[],
    reader: Reader,
    previous?: Snapshot,
  ): Promise<Findings> {
    const { standing, restsOn } = standingFor(slices, reader)
    const now = await Promise.all(slices.map(standing))
    const { corpus, lists, rows } = await gatherFindings(feed, now.flat(), judge(), previous)
    made.set(rows, { feed: feed.id, agents: restsOn(rows), extra: corpus.extra })
    let list = 0
    return { corpus, rows, lists: now.map(([slice]) => (slice ? (lists[list++] ?? []) : [])) }
  }

  /** What was said earlier, in one corpus with the feed. The same rows are best given as the same array. */
  async function corpusOf(feed: Snapshot, rows: readonly FoundRow[], reader: Reader): Promise<Corpus> {
    const { standing, restsOn } = standingFor(rows, reader)
    const agents = restsOn(rows)
    const before = made.get(rows)
    const isSame = before?.feed === feed.id && before.agents === agents
    if (before && isSame && (!before.extra || isAsJudged(before.extra))) {
      return { feed, ...(before.extra && { extra: before.extra }) }
    }
    const slices = (await Promise.all(foundSlices(rows).map(standing))).flat()
    const { corpus } = await gatherFindings(feed, slices, judge(), before?.extra)
    made.set(rows, { feed: feed.id, agents, extra: corpus.extra })
    return corpus
  }

  return { gather, corpusOf }
}

export type WhatStands = ReturnType<typeof createStanding>
