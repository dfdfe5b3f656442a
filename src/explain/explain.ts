/**
 * Why a signal is, or is not, in the feed: for the operator who is asked in the morning. One question, one answer with a
 * reason word, a sentence, and the evidence behind them (GET /explain, `tributary explain`).
 */

import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import { evidenceOf, type ProviderEvidence, providerEvidence } from '../authz/report/evidence.js'
import type { CompiledProvider } from '../authz/rules/decide.js'
import type { ProviderState } from '../authz/rules/state.js'
import type { Verdict } from '../authz/rules/verdict.js'
import type { CallerSettings } from '../config/callers.js'
import type { Feed } from '../feed/feed.js'
import type { Selection } from '../feed/query.js'
import { handleKey } from '../merge/identity.js'
import type { Judge } from '../merge/judge.js'
import { putKey, WORDS } from '../snapshot/keys.js'
import { explainAbsence, WHY, type Why } from './absence.js'
import { accountOf, explainView, readerOf, type ViewExplanation } from './caller-view.js'
import type { Departures, FormerUpstream, FormerUpstreams } from './departures.js'
import { explainSignal, type OfferExplanation, type SignalExplanation } from './offers-of-signal.js'
import { handleOfSegment, isPinnedTo, type Meaning, meaningOf } from './ref.js'
import { explainUpstreams, iso, type UpstreamExplanation, type UpstreamSources } from './upstream.js'

export type Explanation = {
  ref: string
  kind: 'signal' | 'upstream' | 'unknown'
  reason: Why
  /** The closed word behind the reason: of a verdict, a refused row, an upstream's failure. */
  detail?: string
  explanation: string
  hint?: string
  signal?: SignalExplanation
  /** The upstream asked for, those that offer the signal, or those that explain why nobody does. */
  upstreams: UpstreamExplanation[]
  /** The provider of the signal, as it is held now. */
  provider?: ProviderEvidence
  /** When the signal left the feed, or the upstream the roster. */
  left_at?: string
  /** Of an upstream that left: who it was, and who listed it. */
  former?: { id: string; agent_url: string; name: string; source: string }
  snapshot?: { published_at: string; signals: number }
  view?: ViewExplanation
}

/**
 * A person's question. `caller`, one of its accounts and the selection describe the request that does not show the
 * signal.
 */
type Question = Selection & { ref: string; caller?: string; account?: string }

type Explained =
  | { kind: 'explained'; explanation: Explanation }
  | { kind: 'no_caller'; caller: string }
  | { kind: 'no_account'; account: string }

type ExplainSources = UpstreamSources & {
  feed: Pick<Feed, 'current' | 'lookup' | 'prepared'>
  publishedAt(): number | undefined
  judge(): Judge
  provider(domain: string): CompiledProvider
  providerState(domain: string): ProviderState | undefined
  departures: Departures
  former: FormerUpstreams
  callers(): Pick<CallerSettings, 'anonymous' | 'keys'>
  now(): number
}

type Told = Omit<Explanation, 'ref' | 'explanation' | 'upstreams'> & { agentUrls: readonly string[] }

function keyOf(handle: string): Uint32Array | undefined {
  const bytes = handleKey(handle)
  if (!bytes) return undefined
  const key = new Uint32Array(WORDS)
  putKey(key, 0, bytes)
  return key
}

/** One word for all offers when they agree; the first near miss in words. */
function verdictOf({ offers }: SignalExplanation): { detail?: string; hint?: string } {
  const reasons = new Set(offers.flatMap(({ evidence }) => evidence?.reason ?? []))
  const [detail] = reasons.size === 1 ? reasons : []
  const hint = offers.find(({ evidence }) => evidence?.hint)?.evidence?.hint
  return { ...(detail && { detail }), ...(hint && { hint }) }
}

function formerly(
  { id, agentUrl, name, source, leftAt }: FormerUpstream,
  leftAtOfSignal: string | undefined,
) {
  const listed = source === 'static' ? 'the configuration' : source
  return {
    former: { id, agent_url: agentUrl, name, source },
    left_at: leftAtOfSignal ?? iso(leftAt),
    hint: `${id} was listed by ${listed} until ${iso(leftAt)}; an entry under upstreams keeps an agent, whoever lists it`,
  }
}

/** Reads its sources at each question; nothing is kept between two. */
export function createExplainer(sources: ExplainSources) {
  const { feed, departures, now } = sources

  function signalAt(handle: string, account: string | undefined): SignalExplanation | undefined {
    const snapshot = feed.current(account)
    const key = keyOf(handle)
    if (!snapshot || !key) return undefined
    const evidence = (domain: string, verdict: Verdict) => {
      const state = sources.providerState(domain)
      return state && evidenceOf(state, sources.provider(domain), verdict)
    }
    return explainSignal({ snapshot, key, judge: sources.judge(), evidence })
  }

  async function aboutUpstream(agentUrl: string): Promise<Told> {
    const [found] = await explainUpstreams([agentUrl], sources)
    const agentUrls = [agentUrl]
    if (!found) {
      const out = sources.roster().excluded.find(({ url }) => agentUrlOf(url) === agentUrl)
      if (out) return { kind: 'upstream', reason: 'upstream_excluded', detail: out.reason, agentUrls }
      const reason = sources.former.at(agentUrl) ? 'upstream_left' : 'unknown'
      return { kind: reason === 'unknown' ? reason : 'upstream', reason, agentUrls }
    }
    const { state, problem, rows, published, hint } = found
    const detail = problem && { detail: problem.reason }
    const told = { kind: 'upstream' as const, agentUrls, ...(hint && { hint }) }
    if (state === 'starting') return { ...told, reason: 'upstream_starting', ...detail }
    if (state === 'absent') return { ...told, reason: 'upstream_absent', ...detail }
    if (rows > 0 && published === 0) return { ...told, reason: 'nothing_published', ...detail }
    return { ...told, reason: 'present', ...(detail ?? (state === 'stale' && { detail: 'stale' })) }
  }

  /** Of one offer, where the reference names one: by a handle of ours, or by the upstream's own segment id. */
  function aboutOffers(signal: SignalExplanation, { ref }: Question, meaning: Meaning): Told {
    const isMeant = ({ handle, segment_id }: OfferExplanation) =>
      meaning.kind === 'signal'
        ? meaning.pins === undefined || isPinnedTo(meaning.pins, handle)
        : segment_id === ref
    const offers = signal.offers.filter(isMeant)
    const agentUrls = [...new Set(offers.map(({ agent_url }) => agent_url))]
    const told = { kind: 'signal' as const, signal, agentUrls }
    if (offers.length === 0) return { ...told, reason: 'offer_unknown' }
    if (offers.some(({ fate }) => fate === 'stands')) return { ...told, reason: 'present' }
    const fates = offers.map(({ fate }) => fate)
    const reason = (['no_country_left', 'no_room', 'outranked'] as const).find((fate) => fates.includes(fate))
    return { ...told, reason: reason ?? 'not_authorized', ...(!reason && verdictOf({ ...signal, offers })) }
  }

  function aboutAbsent(
    ref: string,
    meaning: Meaning,
    handle: string | undefined,
    account: string | undefined,
  ): Told {
    const identity = meaning.kind === 'signal' ? meaning.identity : undefined
    const departure = handle === undefined ? undefined : departures.of(handle)
    const provider = identity?.kind === 'provider' ? sources.provider(identity.domain) : undefined
    const { why, detail, agentUrls } = explainAbsence({
      ref,
      ...(identity && { identity }),
      ...(departure && { departure }),
      ...(provider && { provider }),
      slices: sources.slices(account),
      roster: sources.roster(),
      statuses: sources.statuses(),
      canonical: canonicalUrl,
      now: now(),
    })
    const state = identity?.kind === 'provider' ? sources.providerState(identity.domain) : undefined
    return {
      kind: why === 'unknown' ? 'unknown' : 'signal',
      reason: why,
      agentUrls,
      ...(detail && { detail }),
      ...(departure && { left_at: iso(departure.at) }),
      ...(state && { provider: providerEvidence(state) }),
    }
  }

  /** `account`: the feed's name of the one whose prices and rows are asked about. */
  async function tell(question: Question, account: string | undefined): Promise<Told> {
    const { ref } = question
    const meaning = meaningOf(ref, sources.roster())
    sources.former.note(sources.roster(), now())
    if (meaning.kind === 'upstream') return aboutUpstream(meaning.agentUrl)
    const gone = meaning.kind === 'text' ? sources.former.find(ref) : undefined
    if (gone) return aboutUpstream(gone.agentUrl)
    if (!feed.current()) return { kind: 'unknown', reason: 'starting', agentUrls: [] }
    const held =
      meaning.kind === 'signal' ? meaning.handle : await handleOfSegment(sources.slices(account), ref)
    const handle = held ?? departures.handleOfSegment(ref)
    const signal = handle === undefined ? undefined : signalAt(handle, account)
    if (!signal) return aboutAbsent(ref, meaning, handle, account)
    return aboutOffers(signal, question, meaning)
  }

  /** The same, as one caller's request would see it. */
  async function seen(
    told: Told,
    question: Question,
    account: string | undefined,
  ): Promise<Told | undefined> {
    const { caller, account: _, ref: __, ...selection } = question
    if (caller === undefined || told.reason !== 'present' || !told.signal) return told
    const { anonymous } = sources.callers()
    const found = readerOf(caller, sources.callers())
    if (!found) return undefined
    const reader = { ...found, ...(account !== undefined && { account }) }
    const view = await explainView({ feed, signal: told.signal, reader, anonymous, selection })
    if (view.access === 'none') return { ...told, reason: 'hidden_from_caller', view }
    const [first] = view.filtered_by
    if (first) return { ...told, reason: 'filtered_out', detail: first, view }
    return { ...told, view, ...(view.prices === 'hidden' && { detail: 'prices_hidden' }) }
  }

  return {
    async explain(question: Question): Promise<Explained> {
      const { caller = '', account: asked } = question
      const account = asked === undefined ? undefined : accountOf(caller, asked, sources.callers())
      if (asked !== undefined && account === undefined) return { kind: 'no_account', account: asked }
      const told = await seen(await tell(question, account), question, account)
      if (!told) return { kind: 'no_caller', caller }
      const { agentUrls, ...rest } = told
      const [former] = agentUrls.flatMap((agentUrl) => sources.former.at(agentUrl) ?? [])
      const snapshot = feed.current(account)
      const at = sources.publishedAt()
      return {
        kind: 'explained',
        explanation: {
          ref: question.ref,
          ...rest,
          explanation: WHY[told.reason],
          ...(former && formerly(former, told.left_at)),
          upstreams: await explainUpstreams(agentUrls, sources),
          ...(snapshot && at && { snapshot: { published_at: iso(at), signals: snapshot.shown.length } }),
        },
      }
    },
  }
}
