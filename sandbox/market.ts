/**
 * The truth about every signal of the demo market. Signal i is a pure function of (seed, i), computed on demand: a
 * million signals need no memory. A local id carries its index, so that a lookup needs no table either.
 */
import type { SignalRef } from '../src/adcp/signal.js'
import { createLayout, type Lane, type Layout, type Slot } from './layout.js'
import { AGENTS, PROVIDERS } from './parties.js'
import {
  PLACES,
  type Place,
  type Stance,
  type Subject,
  type Theme,
  WINDOWS,
  type Window,
} from './vocabulary.js'

// Coprime to every theme's number of combinations: neighbours differ in all words, and no name repeats early.
const STRIDE = 1_000_003

export type MarketSignal = {
  index: number
  id: string
  slot: Slot
  theme: Theme
  subject: Subject
  stance: Stance
  window: Window
  place: Place
  name: string
  description: string
  /** The domain whose word counts on this signal: its provider's, or its owner's. */
  domain: string
  /** Who it comes from, for people. */
  source: string
  ref: SignalRef
}

export type Market = {
  size: number
  seed: number
  signal(index: number): MarketSignal
  /** The signal with this local id, or undefined when there is none. */
  find(id: string): MarketSignal | undefined
  lane: Layout['lane']
  /** A number in [0, 1) that depends on the seed, the signal and the question. */
  chance(index: number, question: string): number
}

function scramble(value: number): number {
  let mixed = value | 0
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function textSeed(text: string): number {
  let sum = 0
  for (let at = 0; at < text.length; at += 1) sum = Math.imul(sum, 31) + text.charCodeAt(at)
  return sum
}

function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')
}

function at<T>(list: readonly T[], position: number): T {
  return list[position % list.length] as T
}

function refOf(slot: Slot, id: string): SignalRef {
  if ('provider' in slot) {
    return { scope: 'data_provider', data_provider_domain: PROVIDERS[slot.provider].domain, signal_id: id }
  }
  return { scope: 'signal_source', signal_source_url: AGENTS[slot.owner].url, signal_id: id }
}

/** `size` signals; another seed deals the same words to other indices. */
export function createMarket({ size, seed }: { size: number; seed: number }): Market {
  const layout = createLayout(size)
  const ranks = new Map<Theme, Lane>()

  function rankInTheme(theme: Theme, index: number): number {
    let lane = ranks.get(theme)
    if (!lane) {
      lane = layout.lane((slot) => slot.theme === theme)
      ranks.set(theme, lane)
    }
    return lane.positionOf(index) ?? 0
  }

  function signal(index: number): MarketSignal {
    const slot = layout.slotAt(index)
    const { theme } = slot
    const combinations = theme.subjects.length * theme.stances.length * WINDOWS.length * PLACES.length
    const rank = rankInTheme(theme, index)
    let deal = (rank * STRIDE + seed) % combinations
    const subject = at(theme.subjects, deal)
    deal = Math.floor(deal / theme.subjects.length)
    const stance = at(theme.stances, deal)
    deal = Math.floor(deal / theme.stances.length)
    const place = at(PLACES, deal)
    const window = at(WINDOWS, Math.floor(deal / PLACES.length))
    const round = Math.floor(rank / combinations)
    const id = `${slug(subject.name)}_${slug(stance.label)}_${index.toString(36)}`
    const party = 'provider' in slot ? PROVIDERS[slot.provider] : AGENTS[slot.owner]
    const cohort = round > 0 ? ` · Cohort ${round + 1}` : ''
    return {
      index,
      id,
      slot,
      theme,
      subject,
      stance,
      window,
      place,
      name: `${subject.name} ${stance.label} · ${place.label} · ${window.label}${cohort}`,
      description: `${theme.who} ${stance.says} ${subject.about} in ${place.where}, on evidence of ${window.says}. ${theme.evidence}`,
      domain: party.domain,
      source: party.name,
      ref: refOf(slot, id),
    }
  }

  function find(id: string): MarketSignal | undefined {
    const index = Number.parseInt(id.slice(id.lastIndexOf('_') + 1), 36)
    if (!(index >= 0 && index < size)) return undefined
    const found = signal(index)
    return found.id === id ? found : undefined
  }

  return {
    size,
    seed,
    signal,
    find,
    lane: layout.lane,
    chance: (index, question) => scramble(scramble(index ^ scramble(seed)) ^ textSeed(question)) / 2 ** 32,
  }
}
