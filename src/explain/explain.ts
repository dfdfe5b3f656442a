/**
 * Why a signal is, or is not, in the feed: for the operator who is asked in the morning. One question, one answer with a
 * reason word, a sentence, and the evidence behind them (GET /explain, `tributary explain`). What a person may name a signal
 * or an upstream by is first read into what it can mean (docs/explain.md).
 */
import { canonicalUrl } from '../adcp/url.js'
import { evidenceOf, iso, type ProviderEvidence, providerEvidence } from '../authz/report.js'
import type { CompiledProvider, Judge, ProviderState, Verdict } from '../authz/rules/verdict.js'
import type { CallerSettings } from '../config/callers.js'
import type { Feed } from '../feed/feed.js'
import type { Reader, Selection } from '../feed/query.js'
import { handleKey, type Identity, identityKey, signalHandle, signalPart } from '../merge/identity.js'
import { inTurns } from '../process/portion-turns.js'
import { entryOf, rowAt, type Snapshot } from '../snapshot/snapshot.js'
import { agentMeant, type Roster } from '../upstreams/roster/roster.js'
import { type Departures, explainAbsence, type FormerUpstream, type FormerUpstreams } from './absence.js'
import { WHY, type Why } from './remedies.js'
import { type NamedSignal, signalsOfSegment } from './segment.js'
import {
  ANONYMOUS,
  accountOf,
  explainSignal,
  explainView,
  type OfferExplanation,
  readerOf,
  type SignalExplanation,
  type ViewExplanation,
} from './signal.js'
import { explainUpstreams, type UpstreamExplanation, type UpstreamSources } from './upstream.js'

const MAX_REF = 4_096

type Meaning =
  /** `identity` is known when it was spelled out; `pins` is the text of an offer handle or option id. */
  | { kind: 'signal'; handle: string; identity?: Identity; pins?: string }
  | { kind: 'upstream'; agentUrl: string }
  /** Perhaps an upstream's own segment id. */
  | { kind: 'text' }

function ofIdentity(identity: Identity): Meaning {
  return { kind: 'signal', handle: signalHandle(identityKey(identity)), identity }
}

/** `roster` tells ids and urls of upstreams from other words. */
function meaningOf(ref: string, roster: Roster): Meaning {
  const byId =
    roster.entries.find(({ id }) => id === ref)?.agentUrl ?? roster.excluded.find(({ id }) => id === ref)?.url
  if (byId !== undefined) return { kind: 'upstream', agentUrl: byId }
  if (ref.length > MAX_REF) return { kind: 'text' }
  if (handleKey(signalPart(ref))) {
    const handle = signalPart(ref)
    return { kind: 'signal', handle, ...(ref !== handle && { pins: ref }) }
  }
  const [, sourceUrl, sourceId] = /^(https?:\/\/[^#]*)#([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  const source = sourceUrl === undefined ? undefined : canonicalUrl(sourceUrl)
  if (source && sourceId) return ofIdentity({ kind: 'source', agentUrl: source, id: sourceId })
  const known = agentMeant(ref, roster)
  if (known) return { kind: 'upstream', agentUrl: known }
  const [, domain, id] = /^([^/\s]+\.[^/\s]+)\/([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  if (domain && id) return ofIdentity({ kind: 'provider', domain: domain.toLowerCase(), id })
  const agentUrl = canonicalUrl(ref)
  return agentUrl ? { kind: 'upstream', agentUrl } : { kind: 'text' }
}

/** Whether an offer handle or an option id of ours speaks of an offer. `prices`: the option ids of the signal's row. */
function isPinnedTo(pins: string, { handle, fate }: OfferExplanation, prices: ReadonlySet<string>): boolean {
  return pins === handle || (pins.startsWith(`${handle}.`) && (fate !== 'stands' || prices.has(pins)))
}

/** The option ids that a signal's row shows. */
function pricesIn(snapshot: Snapshot | undefined, handle: string): ReadonlySet<string> {
  const entry = snapshot ? entryOf(snapshot, handle) : -1
  if (!snapshot || entry < 0) return new Set()
  const { pricing_options: options = [] } = rowAt(snapshot, entry) as {
    pricing_options?: { pricing_option_id: string }[]
  }
  return new Set(options.map(({ pricing_option_id: id }) => id))
}

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
  /** Of an upstream's own segment id: other signals that an upstream calls so, which are not told of here. */
  also?: readonly NamedSignal[]
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
  /** Ids of callers that an operator suspended. */
  suspended(): ReadonlySet<string>
  now(): number
}

type Told = Omit<Explanation, 'ref' | 'explanation' | 'upstreams'> & {
  agentUrls: readonly string[]
  /** Handles of the offers that the reference names; absent when it names all. */
  meant?: ReadonlySet<string>
}

/** One word for all offers when they agree; the first near miss in words. */
function verdictOf({ offers }: SignalExplanation): { detail?: string; hint?: string } {
  const reasons = new Set(offers.flatMap(({ evidence }) => evidence?.reason ?? []))
  const [detail] = reasons.size === 1 ? reasons : []
  const hint = offers.find(({ evidence }) => evidence?.hint)?.evidence?.hint
  return { ...(detail && { detail }), ...(hint && { hint }) }
}

const ADMIT =
  'tributary admit lets in whom an operator left out; else upstreams[].exclude or discovery.exclude keeps it out'

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

  async function signalAt(
    handle: string,
    account: string | undefined,
  ): Promise<SignalExplanation | undefined> {
    const snapshot = feed.current(account)
    const key = handleKey(handle)
    if (!snapshot || !key) return undefined
    const evidence = (domain: string, verdict: Verdict) => {
      const state = sources.providerState(domain)
      return state && evidenceOf(state, sources.provider(domain), verdict)
    }
    return await inTurns(explainSignal({ snapshot, key, judge: sources.judge(), evidence }))
  }

  /** An agent that is not in the roster. */
  function aboutUnlisted(agentUrl: string): Told {
    const agentUrls = [agentUrl]
    const out = sources.roster().excluded.find(({ url }) => url === agentUrl)
    if (out) {
      const hint = out.reason === 'excluded' && { hint: ADMIT }
      return { kind: 'upstream', reason: 'upstream_excluded', detail: out.reason, ...hint, agentUrls }
    }
    if (sources.former.at(agentUrl)) return { kind: 'upstream', reason: 'upstream_left', agentUrls }
    return { kind: 'unknown', reason: 'unknown', agentUrls }
  }

  /** Of the first of these agents that has left; one that is kept out is still listed. */
  function leaver(agentUrls: readonly string[]): FormerUpstream | undefined {
    const keptOut = new Set(sources.roster().excluded.map(({ url }) => url))
    return agentUrls.filter((url) => !keptOut.has(url)).flatMap((url) => sources.former.at(url) ?? [])[0]
  }

  async function aboutUpstream(agentUrl: string): Promise<Told> {
    const [found] = await explainUpstreams([agentUrl], sources)
    if (!found) return aboutUnlisted(agentUrl)
    const { state, problem, rows, published, hint } = found
    const detail = problem && { detail: problem.reason }
    const told = { kind: 'upstream' as const, agentUrls: [agentUrl], ...(hint && { hint }) }
    if (state === 'starting') return { ...told, reason: 'upstream_starting', ...detail }
    if (state === 'absent') return { ...told, reason: 'upstream_absent', ...detail }
    if (rows > 0 && published === 0) return { ...told, reason: 'nothing_published', ...detail }
    return { ...told, reason: 'present', ...(detail ?? (state === 'stale' && { detail: 'stale' })) }
  }

  /** Of one offer, where the reference names one: by a handle of ours, or by the upstream's own segment id. */
  function aboutOffers(
    signal: SignalExplanation,
    ref: string,
    meaning: Meaning,
    account: string | undefined,
  ): Told {
    const pins = meaning.kind === 'signal' ? meaning.pins : undefined
    const prices = pins === undefined ? undefined : pricesIn(feed.current(account), signal.handle)
    const isMeant = (offer: OfferExplanation) => {
      if (meaning.kind !== 'signal') return offer.segment_id === ref
      return !pins || !prices || isPinnedTo(pins, offer, prices)
    }
    const named = signal.offers.filter(isMeant)
    if (named.length === 0 && signal.shown) {
      return { kind: 'signal', signal, agentUrls: [], meant: new Set(), reason: 'offer_unknown' }
    }
    const offers = named.length > 0 ? named : signal.offers // which say why the signal is not there
    const agentUrls = [...new Set(offers.map(({ agent_url }) => agent_url))]
    const told = {
      ...{ kind: 'signal' as const, signal, agentUrls },
      ...(offers.length < signal.offers.length && { meant: new Set(offers.map(({ handle }) => handle)) }),
    }
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
    const { handle, also } = await meantBy(ref, meaning, account)
    const signal = handle === undefined ? undefined : await signalAt(handle, account)
    if (signal) return { ...aboutOffers(signal, ref, meaning, account), ...(also.length > 0 && { also }) }
    const absent = aboutAbsent(ref, meaning, handle, account)
    if (account === undefined || absent.reason === 'refused_row') return absent
    const ofAll = handle ?? (await meantBy(ref, meaning, undefined)).handle
    const others = ofAll === undefined ? undefined : await signalAt(ofAll, undefined)
    if (!others) return absent
    const agentUrls = [...new Set(others.offers.map(({ agent_url }) => agent_url))]
    return { kind: 'signal', reason: 'not_for_account', agentUrls }
  }

  /** The signal that is told of. `account`: among whose rows an upstream's own segment id is looked for. */
  async function meantBy(
    ref: string,
    meaning: Meaning,
    account: string | undefined,
  ): Promise<{ handle: string | undefined; also: readonly NamedSignal[] }> {
    if (meaning.kind === 'signal') return { handle: meaning.handle, also: [] }
    const [first, ...also] = await signalsOfSegment(sources.slices(account), ref)
    return { handle: first?.handle ?? departures.handleOfSegment(ref), also }
  }

  /** The same, as one caller's request would see it. */
  async function seen(told: Told, reader: Reader, selection: Selection): Promise<Told> {
    const { reason, signal, meant } = told
    if (reason !== 'present' || !signal) return told
    const { caller } = reader
    const isSuspended = sources.suspended().has(caller)
    const isDenied = isSuspended || (caller === ANONYMOUS && sources.callers().anonymous === 'deny')
    const view = await explainView({ feed, signal, reader, isDenied, selection, ...(meant && { meant }) })
    if (isDenied) {
      return { ...told, reason: 'hidden_from_caller', ...(isSuspended && { detail: 'suspended' }), view }
    }
    const [first] = view.filtered_by
    if (first) return { ...told, reason: 'filtered_out', detail: first, view }
    return { ...told, view, ...(view.prices === 'hidden' && { detail: 'prices_hidden' }) }
  }

  return {
    async explain(question: Question): Promise<Explained> {
      const { ref: _ref, caller, account: asked, ...selection } = question
      const found = caller === undefined ? undefined : readerOf(caller, sources.callers())
      if (caller !== undefined && !found) return { kind: 'no_caller', caller }
      const account = asked === undefined ? undefined : accountOf(caller ?? '', asked, sources.callers())
      if (asked !== undefined && account === undefined) return { kind: 'no_account', account: asked }
      const reader = found && { ...found, ...(account !== undefined && { account }) }
      const inFeed = await tell(question, account)
      const told = reader ? await seen(inFeed, reader, selection) : inFeed
      const { agentUrls, meant: _, ...rest } = told
      const former = leaver(agentUrls)
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
