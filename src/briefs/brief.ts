/**
 * One brief question: the mirrored feed is searched at once while the upstreams are asked, and both become one order
 * (docs/decisions.md#deadlines; specification, "Operation by combination of `signal_spec` and `signal_refs`"). What each upstream
 * contributed is told by name and reason in `ext.tributary.upstreams[]`, and missing parts in `incomplete[]` (specification,
 * "IncompleteEntry"). The words are ours; an upstream's error text is not repeated.
 */
import { type AdcpWarning, firstOf } from '../adcp/answer.js'
import type { SignalRef } from '../adcp/signal.js'
import {
  type Duration,
  durationOf,
  type GetSignalsRequest,
  refsOf,
  selectionOf,
} from '../adcp/signal-requests.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Feed } from '../feed/feed.js'
import type { Moment } from '../feed/layers.js'
import { criteriaOf, type Reader } from '../feed/query.js'
import { type Clock, within } from '../net/clock.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { FoundRow } from '../store/records/found.js'
import type { UpstreamFailure } from '../upstreams/agent/agent.js'
import type { Asked } from '../upstreams/asker.js'
import type { Fanout, UpstreamAnswer } from '../upstreams/fanout.js'
import { PUBLIC } from '../upstreams/mirror/scope-setting.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { FoundSlice } from '../upstreams/rows/found-slice.js'
import { slabBytes } from '../upstreams/rows/slab.js'
import type { Corpus } from './corpus.js'
import type { Order, Ranking } from './rank.js'
import { isAskable, isOnlyAsked, type StandingOptions, type WhatStands } from './standing.js'

const ASKED_ROWS = 50
const GUESS_MS = 5_000 // what an upstream takes when its usual time is not known
const MOST_NAMED = 20
/**
 * How long before the deadline to begin to rank what has arrived: ranking takes 0.1 ms a row and 25 ms a megabyte, and
 * more on a busy machine, because other requests are served in between.
 */
const BEFORE_MS = 50
const BEFORE_MS_A_ROW = 0.3
const BEFORE_MS_A_BYTE = 50 / 1024 ** 2
const MOST_BEFORE = 0.5 // of the time that is left for the question
const ABSENT: UpstreamAnswer = { kind: 'not_asked', reason: 'absent' }
const NOT_ASKED = {
  no_time: 'usually takes longer than the time given',
  busy: 'has too many questions waiting',
  absent: 'is absent',
} as const

/** What one upstream contributed. */
type UpstreamReport = {
  id: string
  outcome: 'answered' | 'submitted' | 'failed' | 'pending' | 'not_asked'
  reason?: UpstreamFailure | 'no_time' | 'busy' | 'absent' | 'deadline'
  /** Signals it found. */
  found?: number
  took_ms?: number
}

export type Missing = { scope: 'signals'; description: string; estimated_wait?: Duration }

/** `found`: how many signals of its answer could be used. */
function reportOf(id: string, answer: UpstreamAnswer, found: number): UpstreamReport {
  if (answer.kind === 'answered') return { id, outcome: 'answered', found, took_ms: answer.tookMs }
  if (answer.kind === 'submitted') return { id, outcome: 'submitted', took_ms: answer.tookMs }
  if (answer.kind === 'failed') {
    return { id, outcome: 'failed', reason: answer.reason, took_ms: answer.tookMs }
  }
  if (answer.kind === 'not_asked') return { id, outcome: 'not_asked', reason: answer.reason }
  return { id, outcome: 'pending', reason: 'deadline' }
}

function whyMissing(answer: UpstreamAnswer): string {
  if (answer.kind === 'pending') return 'has not answered yet'
  if (answer.kind === 'submitted') return 'is still working on it'
  if (answer.kind === 'not_asked') return NOT_ASKED[answer.reason]
  return answer.kind === 'failed' ? `failed (${answer.reason})` : ''
}

function usualWait(answer: UpstreamAnswer): number | undefined {
  if (answer.kind === 'failed') return answer.retryAfterMs
  if (answer.kind === 'answered') return undefined
  if (answer.kind === 'not_asked' && answer.reason === 'absent') return undefined // its time is not known
  return ('typicalMs' in answer ? answer.typicalMs : undefined) ?? GUESS_MS
}

/** Undefined when the upstream has answered. */
function missingOf(id: string, answer: UpstreamAnswer): Missing | undefined {
  if (answer.kind === 'answered') return undefined
  const waitMs = usualWait(answer)
  return {
    scope: 'signals',
    description: `${id} ${whyMissing(answer)}; signals that only it knows are missing.`,
    ...(waitMs !== undefined && { estimated_wait: durationOf(waitMs) }),
  }
}

/**
 * One warning that names the stale upstreams whose rows are in the feed (specification, "Errors": STALE_DATA); none when
 * there are no such upstreams.
 */
export function staleWarnings(statuses: readonly UpstreamStatus[]): AdcpWarning[] {
  const stale = statuses.filter(({ state, listings }) => state === 'stale' && listings > 0)
  if (stale.length === 0) return []
  const names = stale.map(({ id }) => id)
  const message = `What comes from ${firstOf(MOST_NAMED, names)} may be outdated: it is as it was last read.`
  return [{ code: 'STALE_DATA', severity: 'warning', message }]
}

type BriefOptions = Pick<StandingOptions, 'access'> & {
  upstreams: Pick<StandingOptions['upstreams'], 'statuses'>
  feed: Pick<Feed, 'prepared' | 'see'>
  ranking: Ranking
  fanout: Fanout
  standing: Pick<WhatStands, 'gather'>
  clock: Clock
}

export type Ranked = Order & {
  /** The feed as it was ranked. */
  at: Moment
  corpus: Corpus
  /** Rows that upstreams found and the feed lacks. */
  rows: readonly FoundRow[]
  reports: readonly UpstreamReport[]
  missing: readonly Missing[]
}

/** `isSearched`: our own search took part in it. */
type Best = { ranked: Ranked | undefined; isSearched: boolean }

export type Inquiry = {
  /** The agents that were asked, by url, with their answers so far. */
  answers(): ReadonlyMap<string, UpstreamAnswer>
  /** Resolves when all have answered, at `until` (ms since the epoch) at the latest. */
  settled(until: number): Promise<void>
  /**
   * The best answer that can leave by `until`. What has arrived is ranked before that, as early as ranking lately took, and again
   * when more has arrived and the time is still enough. `searchable` resolves when our own search can take part, or no longer will.
   */
  rankedBy(until: number, searchable: Promise<boolean>): Promise<Best>
  /**
   * The answer as it stands; `late` are rows of upstreams that answered `submitted` first, by agent url. Undefined before the
   * first feed.
   */
  rank(late?: ReadonlyMap<string, FoundSlice>): Promise<Ranked | undefined>
  asked: readonly Asked[]
}

/** Equal for equal questions: made from what the upstreams would be sent, and for which account. */
export function questionKey(input: GetSignalsRequest, reader: Reader): string {
  const { tuple } = criteriaOf(selectionOf(input))
  return JSON.stringify([input.signal_spec ?? '', refsOf(input), tuple, reader.account ?? ''])
}

/** The name under which the task is stored that an upstream has begun: its canonical url, and for an account the scope. */
export const taskName = ({ agentUrl, scope }: Pick<Asked, 'agentUrl' | 'scope'>): string =>
  scope === PUBLIC ? agentUrl : `${scope} ${agentUrl}`

/** In whose scopes upstreams are asked, besides the public one. */
export const ownScopes = (asked: readonly Pick<Asked, 'agentUrl' | 'scope'>[]): string[] =>
  asked.flatMap((one) => (one.scope === PUBLIC ? [] : [taskName(one)])).sort()

/** References with a meaning at that upstream: a provider's everywhere, a source's at the source. */
function refsFor(refs: readonly SignalRef[], agentUrl: string): SignalRef[] {
  return refs.filter(
    (ref) =>
      ref.scope === 'data_provider' ||
      (ref.scope === 'signal_source' && canonicalUrl(ref.signal_source_url) === agentUrl),
  )
}

/** How long before the deadline to begin to rank these answers, ms. */
function orderingMs(answers: ReadonlyMap<string, UpstreamAnswer>): number {
  const slices = [...answers.values()].flatMap((one) => (one.kind === 'answered' ? [one.slice.rows] : []))
  return slices.reduce(
    (sum, rows) => sum + BEFORE_MS_A_ROW * rows.count + BEFORE_MS_A_BYTE * slabBytes(rows),
    BEFORE_MS,
  )
}

/** How many times longer than usual ranking may take, by how the last one went: longer at once, shorter by and by. */
const slowerBy = (before: number, now: number) => Math.max(1, now, (before + Math.max(1, now)) / 2)

/** Asks brief questions. Of a question nothing is remembered but how long it took to rank what was found. */
export function createBrief({ feed, ranking, fanout, upstreams, standing, access, clock }: BriefOptions) {
  let slowness = 1

  function askedOf(input: GetSignalsRequest, reader: Reader): Asked[] {
    const refs = refsOf(input)
    const { signal_spec: spec } = input
    const { filters, destinations, countries } = selectionOf(input)
    return upstreams
      .statuses()
      .filter(isAskable)
      .flatMap((status): Asked[] => {
        const { agentUrl, mode } = status
        const own = refsFor(refs, agentUrl)
        if (spec === undefined && own.length === 0) return []
        const { scope, account, auth } = access(reader, agentUrl)
        const args = {
          discovery_mode: 'brief',
          ...(spec !== undefined && { signal_spec: spec }),
          ...(own.length > 0 && { signal_refs: own }),
          ...(filters && { filters }),
          ...(destinations && { destinations }),
          ...(countries && { countries }),
          ...(account && { account }),
          pagination: { max_results: ASKED_ROWS },
        }
        const briefOnly = mode === 'enumerated' || isOnlyAsked(status)
        return [{ agentUrl, args, scope, briefOnly, ...(auth && { auth }) }]
      })
  }

  /**
   * Asks every upstream that may answer, until `deadline` (ms since the epoch). `underWay`: tasks that upstreams have
   * begun for this question, by `taskName`; those upstreams are not asked again.
   */
  function ask(
    input: GetSignalsRequest,
    reader: Reader,
    deadline: number,
    signal?: AbortSignal,
    underWay: Readonly<Record<string, string>> = {},
  ): Inquiry {
    const asked = askedOf(input, reader)
    const taskAt = (one: Asked) => underWay[taskName(one)]
    const fresh = asked.filter((one) => taskAt(one) === undefined)
    const begun = asked.flatMap((one): [string, UpstreamAnswer][] => {
      const taskId = taskAt(one)
      return taskId === undefined ? [] : [[one.agentUrl, { kind: 'submitted', taskId, tookMs: 0 }]]
    })
    const key = JSON.stringify([questionKey(input, reader), ...ownScopes(asked)])
    const question = fanout.ask({ key, asked: fresh, deadline }, signal)
    const settled = (until: number) => question.settled(() => until)
    let known: Snapshot | undefined // the findings outside the feed, as of the last ranking
    const answers = () => new Map([...question.answers(), ...begun])

    /** What each upstream of the roster has said so far, by its id. One that has left it has said nothing. */
    function saidBy(late: ReadonlyMap<string, FoundSlice>): [string, UpstreamAnswer][] {
      const answered = answers()
      return upstreams.statuses().flatMap((status): [string, UpstreamAnswer][] => {
        const { id, agentUrl } = status
        if (!isAskable(status)) return [[id, ABSENT]]
        const answer = answered.get(agentUrl)
        if (!answer) return []
        const slice = answer.kind === 'answered' ? undefined : late.get(agentUrl)
        return [[id, slice ? { kind: 'answered', slice, tookMs: 0 } : answer]]
      })
    }

    async function rank(late: ReadonlyMap<string, FoundSlice> = new Map()): Promise<Ranked | undefined> {
      const selection = selectionOf(input)
      const at = await feed.prepared(selection, reader)
      const seen = feed.see(selection, reader, { at })
      if (!at || !seen) return undefined
      const said = saidBy(late)
      const slices = said.flatMap(([, answer]) => (answer.kind === 'answered' ? [answer.slice] : []))
      const { corpus, lists, rows } = await standing.gather(seen.snapshot, slices, reader, known)
      known = corpus.extra
      let list = 0
      return {
        at,
        corpus,
        rows,
        ...(await ranking(input, reader, { corpus, seen, lists })),
        reports: said.map(([id, answer]) =>
          reportOf(id, answer, answer.kind === 'answered' ? (lists[list++]?.length ?? 0) : 0),
        ),
        missing: said.flatMap(([id, answer]) => missingOf(id, answer) ?? []),
      }
    }

    async function rankedBy(until: number, searchable: Promise<boolean>): Promise<Best> {
      const most = MOST_BEFORE * (until - clock.now())
      let isSearched = false
      const searching = searchable.then((is) => {
        isSearched = is
      })
      const arrived = () => `${isSearched} ${[...question.answers().values()].map(({ kind }) => kind)}`

      async function gathered(end: () => number): Promise<void> {
        await question.settled(end)
        await within(searching, { timeoutMs: Math.max(0, end() - clock.now()), signal, clock }, () => {})
      }

      async function rankedNow() {
        const [begunAt, of, isSearchedNow] = [clock.now(), arrived(), isSearched]
        const ranked = await rank()
        return { ranked, isSearched: isSearchedNow, of, tookMs: clock.now() - begunAt }
      }

      await gathered(() => until - Math.min(slowness * orderingMs(question.answers()), most))
      const usualMs = orderingMs(question.answers())
      const first = await rankedNow()
      slowness = slowerBy(slowness, first.tookMs / usualMs)
      await gathered(() => until - first.tookMs)
      const isTimeLeft = clock.now() + first.tookMs <= until
      return isTimeLeft && arrived() !== first.of ? await rankedNow() : first
    }

    return { answers, settled, rankedBy, rank, asked }
  }

  return { ask }
}

export type Brief = ReturnType<typeof createBrief>
