/**
 * From a handle to the one offer that a request means. An ambiguous request is refused with the choices, because the
 * buyer decides which upstream is paid, and at which price (specification, "PricingOption").
 */
import { type Refused, refuse } from '../adcp/answer.js'
import type { Destination } from '../adcp/signal.js'
import { NO_FEED_YET } from '../feed/feed.js'
import type { Resolved, ResolvedOffer } from '../feed/find-signal.js'
import { destinationKey, destinationOf, matchesDestination } from '../merge/deployments.js'
import type { Action, Entry } from '../store/records/ledger.js'
import { createDestinationSet, type DestinationSet } from './destination-set.js'
import type { Holder } from './holders.js'

type RouteRequest = {
  action: Action
  handle: string
  optionId?: string
  destinations: readonly Destination[]
  /** The caller's account reference, canonical JSON. */
  account?: string
  /** The members of this request that a request for one of the choices repeats. */
  said: Readonly<Record<string, unknown>>
}

/** What a handle means; before there is a feed, nobody can say that it means nothing. */
export type Meaning = Resolved | 'not_ready' | undefined

/** The current meaning of a handle, in the layer of the caller's account if there is one. */
export type ResolveHandle = (handle: string, caller: string, accountId?: string) => Meaning | Promise<Meaning>

/** For which account of a caller (canonical JSON) a request is, and how the upstream sees it. */
export type SeenAs = Pick<Holder, 'account' | 'upstreamAccount' | 'seenAs'>

/** Where a request goes. */
export type Route = {
  signalHandle: string
  offerHandle: string
  upstream: string
  agentUrl: string
  segmentId: string
  optionId?: string
  upstreamOptionId?: string
  /** The name of the signal; only when the feed has it. */
  name?: string
  /** For which account of the caller it was activated, and how the upstream saw that; only when the ledger knows it. */
  activatedAs?: SeenAs
  /** It was activated with a credential. */
  isCredentialed?: true
}

const SEVERAL = 'Several upstreams offer this signal: name one.'

type Routed = { kind: 'route'; route: Route } | Refused

/** An option id is not a handle. */
function namesOffer(handle: string, signalHandle: string, offerHandle: string): boolean {
  return handle === signalHandle || handle === offerHandle
}

/**
 * One answer, byte for byte, for a handle or id that is stale, forged or another caller's (docs/protocol.md#envelope).
 */
export function notFound(field: string): Refused {
  return refuse('REFERENCE_NOT_FOUND', 'What this field names does not exist or is not visible to you.', {
    field,
    suggestion: 'Take handles and ids from a current get_signals, list_tasks or list_accounts answer.',
  })
}

/**
 * The caller has nothing here to switch off. The answer is the same whether others have it on or nobody has
 * (docs/activation.md, "Whose activation it is").
 */
export function notOn(): Refused {
  const message =
    'You have nothing to switch off here: no activation of yours for this signal on these destinations.'
  return refuse('REFERENCE_NOT_FOUND', message, {
    field: 'destinations',
    suggestion: 'See list_tasks and the deployments of get_signals for what is live, and where.',
  })
}

/** Requests that can be sent unchanged: a refused request has not bound its key. */
function choose(field: string, message: string, choices: readonly object[]): Refused {
  return refuse('INVALID_REQUEST', message, {
    field,
    suggestion: 'Send one of details.choices.',
    details: { choices },
  })
}

/**
 * Every way to buy one of the offers, on the requested destinations that it serves, or on all of its own when it serves
 * none of them.
 */
function waysToBuy(
  { said, destinations, optionId }: RouteRequest,
  offers: readonly ResolvedOffer[],
): object[] {
  return offers.flatMap((offer) => {
    const served = destinations.filter((destination) => mayServe(offer, destination))
    const way = {
      ...said,
      signal_agent_segment_id: offer.handle,
      destinations: served.length > 0 ? served : offer.deployments.map(destinationOf),
    }
    const ids = offer.options.map(({ option }) => option.pricing_option_id)
    const wanted = optionId !== undefined && ids.includes(optionId) ? [optionId] : ids
    return wanted.length > 0 ? wanted.map((pricing_option_id) => ({ ...way, pricing_option_id })) : [way]
  })
}

function isAt(keys: readonly string[], destination: Destination): boolean {
  const asked = destinationKey(destination)
  return asked !== undefined && keys.some((deployed) => matchesDestination(deployed, asked))
}

const lists = (offer: ResolvedOffer, destination: Destination) => isAt(offer.deployments, destination)

/** An agent that lists no deployments says only on activation what it serves. */
const mayServe = (offer: ResolvedOffer, destination: Destination) =>
  offer.anywhere || lists(offer, destination)

/** The upstream's own id of a pricing option of the offer. */
function upstreamOption(offer: ResolvedOffer, optionId: string): string | undefined {
  return offer.options.find(({ option }) => option.pricing_option_id === optionId)?.upstreamId
}

function toRoute(signal: Resolved, offer: ResolvedOffer, optionId?: string): Routed {
  const { upstream, agentUrl, segmentId } = offer
  const upstreamOptionId = optionId === undefined ? undefined : upstreamOption(offer, optionId)
  const { handle: signalHandle, name } = signal
  const route = { signalHandle, name, offerHandle: offer.handle, upstream, agentUrl, segmentId }
  return {
    kind: 'route',
    route: { ...route, ...(upstreamOptionId !== undefined && { optionId, upstreamOptionId }) },
  }
}

/** The one offer that an activation means: named by handle or option, and serving every destination. */
export function routeActivation(signal: Meaning, request: RouteRequest): Routed {
  if (signal === 'not_ready') return NO_FEED_YET
  const { handle, optionId, destinations } = request
  const named = signal?.offers.filter((offer) => namesOffer(handle, signal.handle, offer.handle)) ?? []
  if (!signal || named.length === 0) return notFound('signal_agent_segment_id')
  const priced =
    optionId === undefined ? named : named.filter((offer) => upstreamOption(offer, optionId) !== undefined)
  if (priced.length === 0) return notFound('pricing_option_id')
  if (optionId === undefined && named.some((offer) => offer.options.length > 0)) {
    const message = 'pricing_option_id is required: this signal has a price.'
    return choose('pricing_option_id', message, waysToBuy(request, named))
  }
  const listed = priced.filter((offer) => destinations.every((destination) => lists(offer, destination)))
  const able = listed.length > 0 ? listed : priced.filter(({ anywhere }) => anywhere)
  const [offer, another] = able
  if (!offer) {
    const unserved = destinations.findIndex((destination) => !priced.some((one) => lists(one, destination)))
    const field = unserved < 0 ? 'destinations' : `destinations[${unserved}]`
    const message = 'No offer that the request names serves all of its destinations.'
    return choose(field, message, waysToBuy(request, priced))
  }
  if (another) {
    return choose('signal_agent_segment_id', SEVERAL, waysToBuy(request, able))
  }
  return toRoute(signal, offer, optionId)
}

function fromEntry(entry: Entry): Route {
  const { signalHandle, offerHandle, upstream, agentUrl, segmentId, pricingOptionId, upstreamOptionId } =
    entry
  return {
    ...{ signalHandle, offerHandle, upstream, agentUrl, segmentId },
    ...(pricingOptionId !== undefined && { optionId: pricingOptionId, upstreamOptionId }),
    ...(entry.isCredentialed && { isCredentialed: true }),
    activatedAs: {
      seenAs: entry.seenAs,
      ...(entry.account !== undefined && { account: entry.account }),
      ...(entry.upstreamAccount !== undefined && { upstreamAccount: entry.upstreamAccount }),
    },
  }
}

/** One offer and account of a caller: the newest activation there, of those that are on if any is. */
type Way = { entry?: Entry; isOn: boolean; ended: DestinationSet }

/** `reached`: those of its destinations that are asked about. Each is on unless a later deactivation covers it. */
function takeActivation(way: Way, entry: Entry, reached: readonly Destination[]): void {
  const isOn = reached.some((one) => !way.ended.covers(one))
  if (reached.length > 0 && (!way.entry || (isOn && !way.isOn))) way.entry = entry
  way.isOn ||= isOn
}

/**
 * What the caller activated and has not switched off since, newest first, one route per offer and account: where any of the
 * requested destinations is on. When everything is off, every one of them, because switching off twice must be possible.
 * `history` is newest first.
 */
function activatedRoutes(
  history: readonly Entry[],
  { handle, account, destinations }: Pick<RouteRequest, 'handle' | 'account' | 'destinations'>,
): Route[] {
  const asked = createDestinationSet(destinations)
  const ways = new Map<string, Way>()
  for (const entry of history) {
    if (entry.outcome === 'failed' || !namesOffer(handle, entry.signalHandle, entry.offerHandle)) continue
    if (account !== undefined && entry.account !== account) continue
    const key = `${entry.offerHandle} ${entry.account ?? ''}`
    const way = ways.get(key) ?? { isOn: false, ended: createDestinationSet() }
    ways.set(key, way)
    const reached = entry.destinations as readonly Destination[]
    if (entry.action === 'deactivate') way.ended.add(reached)
    else takeActivation(way, entry, reached.filter(asked.overlaps))
  }
  const all = [...ways.values()].filter(({ entry }) => entry !== undefined)
  const on = all.filter(({ isOn }) => isOn)
  return (on.length > 0 ? on : all).map(({ entry }) => fromEntry(entry as Entry))
}

function wayToEnd({ said, destinations }: RouteRequest, handle: string, account?: string): object {
  return {
    ...said,
    signal_agent_segment_id: handle,
    destinations,
    ...(account !== undefined && { account: JSON.parse(account) as unknown }),
  }
}

/** The one offer a deactivation means: what the ledger says was activated, else what its agent lists as live. */
export function routeDeactivation(history: readonly Entry[], signal: Meaning, request: RouteRequest): Routed {
  const routes = activatedRoutes(history, request)
  const [route, another] = routes
  if (route && !another) return { kind: 'route', route }
  if (another) {
    const message = 'You activated this signal in several ways: name the one to switch off.'
    const ways = routes.map(({ offerHandle, activatedAs }) =>
      wayToEnd(request, offerHandle, activatedAs?.account),
    )
    return choose('signal_agent_segment_id', message, ways)
  }
  if (signal === 'not_ready') return NO_FEED_YET
  const offers =
    signal?.offers.filter((offer) => namesOffer(request.handle, signal.handle, offer.handle)) ?? []
  if (!signal || offers.length === 0) return notFound('signal_agent_segment_id')
  const live = offers.filter((one) => request.destinations.some((destination) => isAt(one.live, destination)))
  const [offer, other] = live
  if (!offer) return notOn()
  if (!other) return toRoute(signal, offer)
  const ways = live.map(({ handle }) => wayToEnd(request, handle))
  return choose('signal_agent_segment_id', SEVERAL, ways)
}
