/**
 * How a demo agent answers a brief: it counts the words of the question in the name and the description. No more
 * inference than that, and the same order every time.
 */
import type { MarketSignal } from './market.js'

const NAME_WEIGHT = 3
const SMALL_WORDS = new Set(
  'a an and are at by for from i in is of on or show that the to us who with within last evidence signals signal audience audiences'.split(
    ' ',
  ),
)

/** Lower-case words without the small ones; a plural counts as its singular. */
function wordsOf(text: string): Set<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return new Set(
    words.filter((word) => !SMALL_WORDS.has(word)).map((word) => word.replace(/(?<=\w{3})s$/, '')),
  )
}

/** What a brief's words are looked up in: by word, the positions of the signals that it occurs in, and its weight there. */
type Occurrences = Map<string, Map<number, number>>

/** Finds signals by the words of briefs; each signal is read once. */
export function createRanking(signalAt: (position: number) => MarketSignal) {
  const occurrences: Occurrences = new Map()
  let read = 0

  function note(word: string, position: number, weight: number): void {
    const places = occurrences.get(word) ?? new Map<number, number>()
    occurrences.set(word, places.set(position, (places.get(position) ?? 0) + weight))
  }

  function readNext(): void {
    const { name, description } = signalAt(read)
    for (const word of wordsOf(name)) note(word, read, NAME_WEIGHT)
    for (const word of wordsOf(description)) note(word, read, 1)
    read += 1
  }

  /** The positions below `end` where a word of the brief occurs, those with most first, and otherwise in order. */
  return (brief: string, end: number): number[] => {
    while (read < end) readNext()
    const scores = new Map<number, number>()
    for (const word of wordsOf(brief)) {
      for (const [position, weight] of occurrences.get(word) ?? []) {
        if (position < end) scores.set(position, (scores.get(position) ?? 0) + weight)
      }
    }
    return [...scores].sort(([a, one], [b, other]) => other - one || a - b).map(([position]) => position)
  }
}
