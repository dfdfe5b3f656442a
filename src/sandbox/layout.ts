/**
 * Who originates signal i and which agents offer it, by arithmetic alone: the market repeats a block of 24 slots, so
 * a feed position and a signal index follow from each other without a table, at any size.
 * After `PROVIDER_BLOCKS` blocks only agents' own signals follow: a well-known file may have 5 MB (FACTS 7).
 */
import type { AgentId, ProviderId } from './parties.js'
import { auto, business, grocery, health, money, opinions } from './provider-themes.js'
import { blends, lookalikes, shopping, sport, streaming, travel } from './source-themes.js'
import type { Theme } from './vocabulary.js'

export type Slot = {
  theme: Theme
  offeredBy: readonly AgentId[]
} & (
  | { provider: ProviderId; grantedTo?: readonly AgentId[]; tags: readonly string[] }
  | { owner: AgentId; kind: 'owned' | 'custom' }
)

const PROVIDER_BLOCKS = 500

/** `grantedTo` is what a file that grants by ids lists; `tags` is what one that grants by tags goes by. */
const MARKET: readonly Slot[] = [
  {
    theme: auto,
    provider: 'motorledger',
    offeredBy: ['northwind', 'meridian'],
    grantedTo: ['northwind', 'meridian'],
    tags: [],
  },
  {
    theme: auto,
    provider: 'motorledger',
    offeredBy: ['northwind', 'meridian', 'gullwing'],
    grantedTo: ['northwind', 'meridian'],
    tags: ['premium'],
  },
  {
    theme: auto,
    provider: 'motorledger',
    offeredBy: ['northwind', 'meridian'],
    grantedTo: ['northwind'],
    tags: ['premium'],
  },
  { theme: auto, provider: 'motorledger', offeredBy: ['meridian'], grantedTo: ['meridian'], tags: [] },
  {
    theme: auto,
    provider: 'motorledger',
    offeredBy: ['northwind', 'oldmill'],
    grantedTo: ['northwind', 'oldmill'],
    tags: [],
  },
  { theme: grocery, provider: 'larderloyalty', offeredBy: ['northwind', 'meridian'], tags: ['basket'] },
  {
    theme: grocery,
    provider: 'larderloyalty',
    offeredBy: ['meridian', 'harborlight'],
    tags: ['basket', 'seasonal'],
  },
  { theme: grocery, provider: 'larderloyalty', offeredBy: ['meridian', 'gullwing'], tags: ['basket'] },
  { theme: grocery, provider: 'larderloyalty', offeredBy: ['oldmill'], tags: ['heritage'] },
  {
    theme: health,
    provider: 'larderloyalty',
    offeredBy: ['meridian', 'oldmill'],
    tags: ['wellness', 'heritage'],
  },
  { theme: health, provider: 'larderloyalty', offeredBy: ['northwind', 'meridian'], tags: ['wellness'] },
  { theme: business, provider: 'atlasb2b', offeredBy: ['northwind', 'meridian'], tags: ['firmographic'] },
  { theme: business, provider: 'atlasb2b', offeredBy: ['northwind'], tags: ['firmographic'] },
  {
    theme: business,
    provider: 'atlasb2b',
    offeredBy: ['meridian', 'harborlight'],
    tags: ['firmographic', 'connected_tv'],
  },
  { theme: money, provider: 'atlasb2b', offeredBy: ['northwind', 'gullwing'], tags: ['finance'] },
  { theme: money, provider: 'atlasb2b', offeredBy: ['oldmill'], tags: ['heritage'] },
  { theme: opinions, provider: 'quietfield', offeredBy: ['meridian'], tags: ['panel'] },
  { theme: opinions, provider: 'quietfield', offeredBy: ['gullwing'], tags: ['panel'] },
  { theme: travel, owner: 'northwind', kind: 'owned', offeredBy: ['northwind'] },
  { theme: blends, owner: 'northwind', kind: 'custom', offeredBy: ['northwind'] },
  { theme: shopping, owner: 'meridian', kind: 'owned', offeredBy: ['meridian'] },
  { theme: lookalikes, owner: 'meridian', kind: 'custom', offeredBy: ['meridian'] },
  { theme: streaming, owner: 'harborlight', kind: 'owned', offeredBy: ['harborlight'] },
  { theme: sport, owner: 'harborlight', kind: 'owned', offeredBy: ['harborlight'] },
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
