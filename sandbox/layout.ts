/**
 * Who originates signal i and which agents offer it, by arithmetic alone: the market repeats a block of 24 slots, so
 * a feed position and a signal index follow from each other without a table, at any size. After `PROVIDER_BLOCKS`
 * blocks only agents' own signals follow: a well-known file may have 5 MB (docs/protocol.md#provider-files).
 */
import type { AgentId, ProviderId } from './parties.js'
import {
  auto,
  blends,
  business,
  grocery,
  health,
  lookalikes,
  money,
  opinions,
  shopping,
  sport,
  streaming,
  travel,
} from './themes.js'
import type { Theme } from './vocabulary.js'

export type Slot = {
  theme: Theme
  offeredBy: readonly AgentId[]
} & (
  | { provider: ProviderId; grantedTo: readonly AgentId[]; tags: readonly string[] }
  | { owner: AgentId; kind: 'owned' | 'custom' }
)

const PROVIDER_BLOCKS = 500

const N: AgentId = 'northwind'
const M: AgentId = 'meridian'
const H: AgentId = 'harborlight'
const O: AgentId = 'oldmill'
const G: AgentId = 'gullwing'

/** Motorledger's file lists the ids that each agent may sell. */
function motorledger(offeredBy: AgentId[], grantedTo: AgentId[], ...tags: string[]): Slot {
  return { theme: auto, provider: 'motorledger', offeredBy, grantedTo, tags: ['automotive', ...tags] }
}

/** The others grant by tag. */
function tagged(theme: Theme, provider: ProviderId, offeredBy: AgentId[], ...tags: string[]): Slot {
  return { theme, provider, offeredBy, grantedTo: [], tags }
}

function own(theme: Theme, kind: 'owned' | 'custom', owner: AgentId): Slot {
  return { theme, owner, kind, offeredBy: [owner] }
}

const MARKET: readonly Slot[] = [
  motorledger([N, M], [N, M]),
  motorledger([N, M, G], [N, M], 'premium'),
  motorledger([N, M], [N], 'premium'),
  motorledger([M], [M]),
  motorledger([N, O], [N, O]),
  tagged(grocery, 'larderloyalty', [N, M], 'basket'),
  tagged(grocery, 'larderloyalty', [M, H], 'basket', 'seasonal'),
  tagged(grocery, 'larderloyalty', [M, G], 'basket'),
  tagged(grocery, 'larderloyalty', [O], 'heritage'),
  tagged(health, 'larderloyalty', [M, O], 'wellness', 'heritage'),
  tagged(health, 'larderloyalty', [N, M], 'wellness'),
  tagged(business, 'atlasb2b', [N, M], 'firmographic'),
  tagged(business, 'atlasb2b', [N], 'firmographic'),
  tagged(business, 'atlasb2b', [M, H], 'firmographic', 'connected_tv'),
  tagged(money, 'atlasb2b', [N, G], 'finance'),
  tagged(money, 'atlasb2b', [O], 'heritage'),
  tagged(opinions, 'quietfield', [M], 'panel'),
  tagged(opinions, 'quietfield', [G], 'panel'),
  own(travel, 'owned', N),
  own(blends, 'custom', N),
  own(shopping, 'owned', M),
  own(lookalikes, 'custom', M),
  own(streaming, 'owned', H),
  own(sport, 'owned', H),
]

const OWN: readonly Slot[] = MARKET.filter((slot) => 'owner' in slot)

/** Two stretches of repeated slots: the market, then the agents' own. */
type Stretch = { slots: readonly Slot[]; from: number; to: number }

/** The indices of a market that satisfy one condition on their slot, in order. */
export type Lane = {
  count: number
  /** The index at a position of the lane. */
  at(position: number): number
  /** The position of an index, or undefined when it is not in the lane. */
  positionOf(index: number): number | undefined
}

export type Layout = {
  slotAt(index: number): Slot
  lane(where: (slot: Slot) => boolean): Lane
}

function laneOf(stretch: Stretch, where: (slot: Slot) => boolean): Lane {
  const width = stretch.slots.length
  const places = stretch.slots.flatMap((slot, place) => (where(slot) ? [place] : []))
  const size = stretch.to - stretch.from
  const rest = places.filter((place) => place < size % width).length
  return {
    count: Math.floor(size / width) * places.length + rest,
    at: (position) =>
      stretch.from +
      Math.floor(position / places.length) * width +
      (places[position % places.length] as number),
    positionOf(index) {
      const offset = index - stretch.from
      const rank = places.indexOf(offset % width)
      if (index < stretch.from || index >= stretch.to || rank < 0) return undefined
      return Math.floor(offset / width) * places.length + rank
    },
  }
}

/** The layout of a market of `size` signals. */
export function createLayout(size: number): Layout {
  const border = Math.min(size, PROVIDER_BLOCKS * MARKET.length)
  const market: Stretch = { slots: MARKET, from: 0, to: border }
  const own: Stretch = { slots: OWN, from: border, to: size }

  function slotAt(index: number): Slot {
    const stretch = index < border ? market : own
    return stretch.slots[(index - stretch.from) % stretch.slots.length] as Slot
  }

  function lane(where: (slot: Slot) => boolean): Lane {
    const first = laneOf(market, where)
    const second = laneOf(own, where)
    return {
      count: first.count + second.count,
      at: (position) => (position < first.count ? first.at(position) : second.at(position - first.count)),
      positionOf(index) {
        if (index < border) return first.positionOf(index)
        const later = second.positionOf(index)
        return later === undefined ? undefined : first.count + later
      },
    }
  }

  return { slotAt, lane }
}
