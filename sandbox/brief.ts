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
export function wordsOf(text: string): Set<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return new Set(
    words.filter((word) => !SMALL_WORDS.has(word)).map((word) => word.replace(/(?<=\w{3})s$/, '')),
  )
}

/** Zero when no word of the question occurs. */
export function relevance(question: ReadonlySet<string>, { name, description }: MarketSignal): number {
  const inName = wordsOf(name)
  const inDescription = wordsOf(description)
  let score = 0
  for (const word of question)
    score += (inName.has(word) ? NAME_WEIGHT : 0) + (inDescription.has(word) ? 1 : 0)
  return score
}
