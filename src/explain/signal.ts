/**
 * One signal of a snapshot: how it came about, and what one caller sees of it. Every offer with its verdict and fate, which
 * offer each part was taken from, how conflicts were resolved (docs/decisions.md#trust, #merging). It decides nothing
 * itself: the rules of `merge` are asked again, and the rules that answer the caller's requests (docs/decisions.md#callers), one
 * criterion at a time, so that it can name the criterion that excludes the signal.
 */
import type { Destination, SignalRef } from '../adcp/signal.js'
import type { Evidence } from '../authz/report.js'
import type { Judge, Policy, Verdict } from '../authz/rules/verdict.js'
import type { CallerSettings } from '../config/callers.js'
import type { Feed } from '../feed/feed.js'
import { accountNamed, overlayName, type Reader, type Selection } from '../feed/query.js'
import { mergeCoverage } from '../merge/coverage.js'
import { type Definition, mergeDefinition } from '../merge/definition.js'
import { destinationKey, mergeDeployments } from '../merge/deployments.js'
import { type Identity, identityKey, identityOf, offerHandle, signalHandle } from '../merge/identity.js'
import { findKey } from '../merge/keys.js'
import { publishedRef, standingOffers } from '../merge/merged-signal.js'
import type { Offer } from '../merge/offer.js'
import { nextPortion } from '../process/portion-turns.js'
import { createMeter, type InPortions, rowUnits } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { sliceListing } from '../upstreams/rows/slice.js'

const NOT_APPLICABLE: Verdict = { outcome: 'not_applicable' }
const NOBODY = 'nobody: left out'
const PROVIDER = 'the provider'
export const ANONYMOUS = 'anonymous'

/** What became of an offer. */
type Fate =
  | 'stands'
  | 'not_authorized' // its verdict, under the current policy, excludes it
  | 'outranked' // the policy would admit it, but there is an authorized offer
  | 'no_room' // the signal's offers list more than one row may: those of whoever lists most are left out
  | 'no_country_left' // provider, grant and row together allow no country

export type OfferExplanation = {
  upstream: string
  agent_url: string
  handle: string
  /** The upstream's own. */
  segment_id: string
  fate: Fate
  verdict: Verdict['outcome']
  evidence?: Evidence
  countries?: readonly string[]
  deployments: readonly string[]
  pricing_options: number
}

/** A field on which offers that stand, or the provider, do not agree. */
type Resolution = { field: string; taken_from: string; differing: readonly string[] }

export type SignalExplanation = {
  handle: string
  ref: unknown
  name: string
  shown: boolean
  policy?: Policy
  /** The provider published a definition, whose words come first. */
  defined_by_provider: boolean
  offers: OfferExplanation[]
  deployments: { key: string; taken_from: string; is_live: boolean }[]
  coverage_taken_from?: string
  conflicts: Resolution[]
}

export type ViewExplanation = {
  caller: string
  account?: string
  access: 'none' | 'without_prices' | 'full'
  /** Criteria of the request that leave the signal out, each alone, or of what the request's countries leave of it. */
  filtered_by: readonly string[]
  /** Whether the same request is shown it in release 3.0 too, which has no signal without a price, coverage and a provider. */
  in_3_0: boolean
  prices: 'shown' | 'hidden' | 'none'
  /** Live deployments, and whether this caller gets their activation keys. */
  activation_keys: readonly { destination: string; shown: boolean }[]
}

type ExplainInput = {
  snapshot: Snapshot
  /** The signal's place in the order of the feed (merge/keys.ts). */
  key: Uint32Array
  judge: Judge
  evidence(domain: string, verdict: Verdict): Evidence | undefined
}

type Found = { identity: Identity; offers: Offer[]; shown: boolean }

/** The listings of one identity, withheld ones included; undefined when no slice has any. */
function* findOffers({ snapshot, key, judge }: ExplainInput): InPortions<Found | undefined> {
  const entry = findKey(snapshot.keys, snapshot.count, key)
  if (entry < 0) return undefined
  const { at, slice, row } = snapshot.offers
  const found: Found[] = []
  const meter = createMeter()
  for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
    const from = snapshot.slices[slice[one] as number]?.slice
    const listing = from && sliceListing(from, row[one] as number)
    const identity = listing && identityOf(listing, from.agentUrl)
    if (!identity) continue
    const { upstream, agentUrl, mode } = from
    const bytes = from.rows.length[row[one] as number] as number
    meter.did(rowUnits(bytes))
    if (meter.isDue()) yield
    const verdict =
      identity.kind === 'provider' ? judge(identity.domain).decide(identity.id, agentUrl) : NOT_APPLICABLE
    found.push({ identity, offers: [{ upstream, agentUrl, mode, listing, bytes, verdict }], shown: false })
  }
  const [first] = found
  if (!first) return undefined
  return {
    identity: first.identity,
    offers: found.flatMap(({ offers }) => offers),
    shown: snapshot.rows.length[entry] !== 0,
  }
}

function isEntitled({ verdict: { outcome } }: Offer): boolean {
  return outcome === 'authorized' || outcome === 'not_applicable'
}

function standingFirst(a: { fate: Fate }, b: { fate: Fate }): number {
  return Number(b.fate === 'stands') - Number(a.fate === 'stands')
}

function fateOf(
  offer: Offer,
  isOutranked: boolean,
  standing: ReadonlySet<Offer>,
  policy: Policy,
  definition: Definition | undefined,
): Fate {
  const alone = standingOffers([offer], policy, definition)
  if (alone.admitted.length === 0) return 'not_authorized'
  if (alone.standing.length === 0) return 'no_country_left'
  if (isOutranked) return 'outranked'
  return standing.has(offer) ? 'stands' : 'no_room'
}

function resolutions(offers: readonly Offer[], definition: Definition | undefined): Resolution[] {
  const { fields, conflicts } = mergeDefinition(offers, offers, definition)
  return conflicts.map(({ field, upstreams }) => {
    const own = definition?.[field as keyof Definition] !== undefined
    const differing = new Set(upstreams)
    const first = offers.find(({ upstream }) => !differing.has(upstream))?.upstream
    const taken_from = fields[field] === undefined ? NOBODY : own ? PROVIDER : (first ?? NOBODY)
    return { field, taken_from, differing: upstreams }
  })
}

type Explaining = {
  handle: string
  definition: Definition | undefined
  policy: Policy
  stands: ReadonlySet<Offer>
  evidenceOf(verdict: Verdict): Evidence | undefined
}

/** Each offer by itself, those that stand first. */
function* explainOffers(
  offers: readonly Offer[],
  { handle, definition, policy, stands, evidenceOf }: Explaining,
): InPortions<OfferExplanation[]> {
  const hasEntitled = offers.some(isEntitled)
  const { keysOf } = mergeDeployments(offers)
  yield
  const explained: OfferExplanation[] = []
  const meter = createMeter()
  for (const [at, offer] of offers.entries()) {
    const { upstream, agentUrl, listing, verdict, bytes } = offer
    const evidence = evidenceOf(verdict)
    const countries = standingOffers([offer], 'observe', definition).standing[0]?.countries
    explained.push({
      upstream,
      agent_url: agentUrl,
      handle: offerHandle(handle, agentUrl, listing.signal_agent_segment_id),
      segment_id: listing.signal_agent_segment_id,
      fate: fateOf(offer, hasEntitled && !isEntitled(offer), stands, policy, definition),
      verdict: verdict.outcome,
      ...(evidence && { evidence }),
      ...(countries && { countries }),
      deployments: keysOf[at] ?? [],
      pricing_options: listing.pricing_options?.length ?? 0,
    })
    meter.did(rowUnits(bytes))
    if (meter.isDue()) yield
  }
  return explained.sort(standingFirst)
}

/**
 * Undefined when no upstream in the snapshot lists the signal. In portions, because the rows of thousands of upstreams may be
 * offers of one signal.
 */
export function* explainSignal(input: ExplainInput): InPortions<SignalExplanation | undefined> {
  const found = yield* findOffers(input)
  if (!found) return undefined
  const { identity, offers, shown } = found
  const handle = signalHandle(identityKey(identity))
  const provider = identity.kind === 'provider' ? input.judge(identity.domain) : undefined
  const definition = identity.kind === 'provider' ? provider?.definition(identity.id) : undefined
  const policy = provider?.policy ?? 'strict'
  const standing = standingOffers(offers, policy, definition).standing.map(({ offer }) => offer)
  yield
  const upstreamAt = (at: number) => standing[at]?.upstream ?? NOBODY
  const ref = publishedRef(identity, handle)
  const explained = yield* explainOffers(offers, {
    ...{ handle, definition, policy, stands: new Set(standing) },
    evidenceOf: (verdict) =>
      identity.kind === 'provider' ? input.evidence(identity.domain, verdict) : undefined,
  })
  yield
  const { deployments } = mergeDeployments(standing)
  yield
  const coverage = mergeCoverage(standing, ref).offer
  yield
  return {
    handle,
    ref,
    name: definition?.name ?? (standing[0] ?? offers[0])?.listing.name ?? '',
    shown,
    ...(provider && { policy }),
    defined_by_provider: definition !== undefined,
    offers: explained,
    deployments: deployments.map(({ key, offer, deployment }) => ({
      key,
      taken_from: upstreamAt(offer),
      is_live: deployment.is_live,
    })),
    ...(coverage >= 0 && { coverage_taken_from: upstreamAt(coverage) }),
    conflicts: resolutions(standing, definition),
  }
}

/** The caller as a reader of the feed; undefined when there is no such caller. */
export function readerOf(
  caller: string,
  callers: Pick<CallerSettings, 'anonymous' | 'keys'>,
): Reader | undefined {
  if (caller === ANONYMOUS) return { caller, visibility: 'metadata', grants: [] }
  const key = callers.keys.find(({ id }) => id === caller)
  return key && { caller, visibility: 'full', grants: key.destinations }
}

/** The feed's name of an account of a caller; undefined when the caller has no such account. */
export function accountOf(
  caller: string,
  account: string,
  { keys }: Pick<CallerSettings, 'anonymous' | 'keys'>,
): string | undefined {
  const key = keys.find(({ id }) => id === caller)
  return key && Object.hasOwn(key.accounts, account) ? overlayName(caller, account) : undefined
}

/** Each filter of a request, and its destinations. `ext` is none: it says how another is meant, in which currency. */
function criteria({ filters: { ext, ...filters } = {}, destinations }: Selection) {
  return [
    ...Object.entries(filters).map(([name, value]): [name: string, Selection] => [
      `filters.${name}`,
      { filters: { [name]: value, ...(ext !== undefined && { ext }) } },
    ]),
    ...(destinations ? [['destinations', { destinations }] as [string, Selection]] : []),
  ]
}

type ViewInput = {
  feed: Pick<Feed, 'lookup' | 'prepared'>
  signal: SignalExplanation
  /** Handles of the offers that are asked about; absent when the signal is. */
  meant?: ReadonlySet<string>
  reader: Reader
  /** The reader may read nothing here. */
  isDenied: boolean
  selection: Selection
}

/** What explain reads of a row as the reader is shown it. */
type ShownRow = {
  deployments: (Destination & { activation_key?: object })[]
  pricing_options?: object[]
  ext: { tributary: { offers: { handle: string }[] } }
}

/** Looks at the whole feed for each criterion, in portions between which others are served. */
export async function explainView(input: ViewInput): Promise<ViewExplanation> {
  const { feed, signal, meant, reader, isDenied, selection } = input
  const refs = [signal.ref as SignalRef]
  const rowsFor = async (asked: Selection, as = reader) => {
    const at = await feed.prepared(asked, as)
    await nextPortion() // merging thousands of offers again for countries takes milliseconds, and so does reading their row
    const page = feed.lookup({ ...asked, refs }, as, at)
    return page.kind === 'page' && page.count > 0 ? page.rows : undefined
  }
  const rowFor = async (asked: Selection): Promise<ShownRow | undefined> => {
    const rows = await rowsFor(asked)
    if (!rows) return undefined
    await nextPortion()
    return JSON.parse(Buffer.concat(rows).toString())
  }
  const offersIn = (row: ShownRow | undefined) => row?.ext.tributary.offers.map(({ handle }) => handle) ?? []
  const isThere = async (asked: Selection) =>
    meant
      ? offersIn(await rowFor(asked)).some((handle) => meant.has(handle))
      : (await rowsFor(asked)) !== undefined
  const filteredBy: string[] = []
  const { countries } = selection
  const isUsable = !countries || (await isThere({ countries }))
  // Only offers that may be used in the named countries count for the others (docs/feed.md#what-filters-do).
  const there = countries && isUsable ? { countries } : {}
  for (const [name, asked] of criteria(selection)) {
    if (!(await isThere({ ...asked, ...there }))) filteredBy.push(name)
  }
  if (!isUsable) filteredBy.push('countries')
  const isShown = !isDenied && filteredBy.length === 0
  const seesPrices = reader.visibility === 'full'
  const in30 =
    isShown && seesPrices && (await rowsFor(selection, { ...reader, wholeOnly: true })) !== undefined
  const row = await rowFor(filteredBy.length > 0 ? {} : selection)
  const sold = new Set(offersIn(row))
  const isPriced = signal.offers.some(
    ({ handle, pricing_options }) => pricing_options > 0 && sold.has(handle),
  )
  const keys = row?.deployments.filter((one) => one.activation_key).map(destinationKey)
  return {
    caller: reader.caller,
    ...(reader.account !== undefined && { account: accountNamed(reader.account)[1] }),
    access: isDenied ? 'none' : seesPrices ? 'full' : 'without_prices',
    filtered_by: filteredBy,
    in_3_0: in30,
    prices: isPriced ? (seesPrices ? 'shown' : 'hidden') : 'none',
    activation_keys: signal.deployments
      .filter(({ is_live }) => is_live)
      .map(({ key }) => ({ destination: key, shown: keys?.includes(key) === true })),
  }
}
