/**
 * From a handle to the one offer that a request means. What is ambiguous is refused with the choices: which upstream
 * is paid, and at which price, is the buyer's decision (specification, "PricingOption").
 */
import type { Destination } from '../adcp/signal.js'
import type { Resolved, ResolvedOffer } from '../feed/lookup.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import type { Action, Entry } from '../store/ledger.js'
import { notFound, type Refusal, refuse } from './answer.js'
import { overlap } from './destination.js'

export type RouteRequest = {
  action: Action
  handle: string
  optionId?: string
  destinations: readonly Destination[]
  /** The caller's account reference, canonical JSON. */
  account?: string
}

/** What a handle stands for now, in the overlay of the caller's account when there is one. */
export type Resolve = (
  handle: string,
  caller: string,
  accountId?: string,
) => Resolved | undefined | Promise<Resolved | undefined>

/** Where a request goes. */
export type Route = {
  signalHandle: string
  offerHandle: string
  upstream: string
  agentUrl: string
  segmentId: string
  optionId?: string
  upstreamOptionId?: string
  /** What the signal is called; only for what the feed has. */
  name?: string
  /** The upstream's account reference the signal was activated with; only for what the ledger knows. */
  activatedAs?: { account: unknown }
}

export type Routed = { kind: 'route'; route: Route } | Refusal

/** At the signal's or the offer's handle; an option id is no handle. */
function namesOffer(handle: string, signalHandle: string, offerHandle: string): boolean {
  return handle === signalHandle || handle === offerHandle
}

function choose(field: string, message: string, offers: readonly ResolvedOffer[]): Refusal {
  return refuse('INVALID_REQUEST', message, {
    field,
    suggestion: 'Send one of details.choices.',
    details: {
      choices: offers.map(({ handle, options, deployments }) => ({
        signal_agent_segment_id: handle,
        ...(options.length > 0 && {
          pricing_option_ids: options.map(({ option }) => option.pricing_option_id),
        }),
        destinations: deployments,
      })),
    },
  })
}

function serves(offer: ResolvedOffer, destination: Destination): boolean {
  const asked = destinationKey(destination)
  return asked !== undefined && offer.deployments.some((deployed) => matchesDestination(deployed, asked))
}

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

/** The one offer an activation means: named by handle or option, and serving every destination. */
export function routeActivation(signal: Resolved | undefined, request: RouteRequest): Routed {
  const { handle, optionId, destinations } = request
  const named = signal?.offers.filter((offer) => namesOffer(handle, signal.handle, offer.handle)) ?? []
  if (!signal || named.length === 0) return notFound('signal_agent_segment_id')
  const priced =
    optionId === undefined ? named : named.filter((offer) => upstreamOption(offer, optionId) !== undefined)
  if (priced.length === 0) return notFound('pricing_option_id')
  if (optionId === undefined && named.some((offer) => offer.options.length > 0)) {
    const message = 'pricing_option_id is required: this signal has a price.'
    return choose('pricing_option_id', message, named)
  }
  const able = priced.filter((offer) => destinations.every((destination) => serves(offer, destination)))
  const [offer, another] = able
  if (!offer) {
    const unserved = destinations.findIndex((destination) => !priced.some((one) => serves(one, destination)))
    const field = unserved < 0 ? 'destinations' : `destinations[${unserved}]`
    return choose(field, 'No offer that the request names serves all of its destinations.', priced)
  }
  if (another)
    return choose('signal_agent_segment_id', 'Several upstreams offer this signal: name one.', able)
  return toRoute(signal, offer, optionId)
}

function fromEntry(entry: Entry): Route {
  const { signalHandle, offerHandle, upstream, agentUrl, segmentId, pricingOptionId, upstreamOptionId } =
    entry
  return {
    ...{ signalHandle, offerHandle, upstream, agentUrl, segmentId },
    ...(pricingOptionId !== undefined && { optionId: pricingOptionId, upstreamOptionId }),
    activatedAs: { account: entry.upstreamAccount },
  }
}

/**
 * What the caller activated and has not switched off since, newest first, one route an offer and account; when all
 * of it is off, every one of them, since switching off twice must be possible. `history` is newest first.
 */
export function activatedRoutes(
  history: readonly Entry[],
  { handle, account, destinations }: Pick<RouteRequest, 'handle' | 'account' | 'destinations'>,
): Route[] {
  const newest = new Map<string, { entry: Entry; on: boolean }>()
  for (const entry of history) {
    if (entry.outcome === 'failed' || !namesOffer(handle, entry.signalHandle, entry.offerHandle)) continue
    if (account !== undefined && entry.account !== account) continue
    const reached = entry.destinations as readonly Destination[]
    if (!reached.some((one) => destinations.some((other) => overlap(one, other)))) continue
    const key = `${entry.offerHandle} ${entry.account ?? ''}`
    const seen = newest.get(key)
    if (!seen) newest.set(key, { entry, on: entry.action === 'activate' })
    else if (entry.action === 'activate' && seen.entry.action === 'deactivate') seen.entry = entry
  }
  const all = [...newest.values()].filter(({ entry }) => entry.action === 'activate')
  const on = all.filter((one) => one.on)
  return (on.length > 0 ? on : all).map(({ entry }) => fromEntry(entry))
}

/** The one offer a deactivation means: what the ledger says was activated, else what the feed offers. */
export function routeDeactivation(
  history: readonly Entry[],
  signal: Resolved | undefined,
  request: RouteRequest,
): Routed {
  const routes = activatedRoutes(history, request)
  const [route, another] = routes
  if (route && !another) return { kind: 'route', route }
  if (another) {
    return refuse(
      'INVALID_REQUEST',
      'You activated this signal in several ways: name the one to switch off.',
      {
        field: 'signal_agent_segment_id',
        suggestion: 'Send one of details.choices, with the account it was activated for.',
        details: { choices: routes.map(({ offerHandle }) => ({ signal_agent_segment_id: offerHandle })) },
      },
    )
  }
  const offers =
    signal?.offers.filter((offer) => namesOffer(request.handle, signal.handle, offer.handle)) ?? []
  const [offer, other] = offers
  if (!signal || !offer) return notFound('signal_agent_segment_id')
  if (other)
    return choose('signal_agent_segment_id', 'Several upstreams offer this signal: name one.', offers)
  return toRoute(signal, offer)
}
