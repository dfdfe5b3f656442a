/**
 * What one agent has to sell right now: its lane through the market, minus what it withdrew, with the prices and live
 * deployments of the moment, and the version tokens that follow (specification, "Wholesale conditional-fetch rules").
 * The state is the agent's: it lives as long as the sandbox and is bounded by the number of its signals.
 */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef, SignalRow } from '../src/adcp/signal.js'
import { indexOfHandle, listingOf } from './listing.js'
import type { Market, MarketSignal } from './market.js'
import type { AgentId } from './parties.js'
import type { RateCard } from './prices.js'
import type { Profile } from './profiles.js'

export type Card = RateCard['kind']
export type Tokens = { wholesale_feed_version: string; pricing_version?: string }

export type Stock = {
  count(): number
  row(index: number, card: Card, fields?: readonly string[]): SignalRow
  /** The index at a feed position. */
  at(position: number): number
  /** Whether the agent sells the signal now. */
  sells(index: number): boolean
  byRef(ref: SignalRef): MarketSignal | undefined
  /** Found for as long as the sandbox runs, sold or not: a deactivation must always be possible. */
  byHandle(handle: string): MarketSignal | undefined
  /** Makes a deployment live or not at `at`, ms since the epoch, in place of what was due for it. */
  schedule(index: number, desk: number, live: boolean, at: number): void
  tokens(card: Card): Tokens
  reprice(): void
  withdraw(rows: number): void
}

export type StockOptions = { market: Market; id: AgentId; profile: Profile; now: () => number }

/** What the agent with this id and profile sells. */
export function createStock({ market, id, profile, now }: StockOptions): Stock {
  const lane = market.lane((slot) => slot.offeredBy.includes(id))
  const switched = new Map<number, Map<number, boolean>>()
  let scheduled: { index: number; desk: number; live: boolean; at: number }[] = []
  let withdrawn = 0
  let repriced = 0
  let revision = 0

  function settle(): void {
    if (scheduled.length === 0) return
    const time = now()
    const due = scheduled.filter(({ at }) => at <= time)
    scheduled = scheduled.filter(({ at }) => at > time)
    for (const { index, desk, live } of due) {
      const desks = switched.get(index) ?? new Map<number, boolean>()
      desks.set(desk, live)
      switched.set(index, desks)
      revision += 1
    }
  }

  const count = () => lane.count - withdrawn

  function sells(index: number): boolean {
    const position = lane.positionOf(index)
    return position !== undefined && position < count()
  }

  function row(index: number, card: Card, fields: readonly string[] = []): SignalRow {
    settle()
    const terms = { card: { kind: card, repriced }, switched: switched.get(index), fields }
    return listingOf(market, profile, market.signal(index), terms)
  }

  function byRef(ref: SignalRef): MarketSignal | undefined {
    const found = market.find(ref.signal_id)
    return found && sells(found.index) && isDeepStrictEqual(ref, found.ref) ? found : undefined
  }

  function token(kind: string, ...state: unknown[]): string {
    const content = JSON.stringify([market.seed, market.size, id, kind, ...state])
    return `${kind}_${hash('sha256', content, 'base64url').slice(0, 16)}`
  }

  return {
    count,
    row,
    at: lane.at,
    sells,
    byRef,
    byHandle(handle) {
      const index = indexOfHandle(profile, handle)
      return index === undefined || lane.positionOf(index) === undefined ? undefined : market.signal(index)
    },
    schedule(index, desk, live, at) {
      scheduled = scheduled.filter((due) => due.index !== index || due.desk !== desk)
      scheduled.push({ index, desk, live, at })
      settle()
    },
    tokens(card) {
      settle()
      const structure = [card, withdrawn, revision]
      if (!profile.separatePricing) return { wholesale_feed_version: token('feed', ...structure, repriced) }
      return {
        wholesale_feed_version: token('feed', ...structure),
        pricing_version: token('price', card, withdrawn, repriced),
      }
    },
    reprice() {
      repriced += 1
    },
    withdraw(rows) {
      withdrawn = Math.min(lane.count, withdrawn + rows)
    },
  }
}
