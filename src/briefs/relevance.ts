/** How well the signals of an answer fit its question, and by which of its words: what a buyer can check for itself. */

export type Relevance = {
  /** What was looked for, by the words of the question. */
  labels: readonly string[]
  /** By hit: how well it fits against the best, 0 to 1, and one bit for each label that it has. */
  of: ReadonlyMap<number, { fit: number; match: number }>
  /** How many hits share something with the question, or were named by it: the first page holds no others. */
  first: number
}

/** The same for the pages of an answer, by the place of a signal in its order. */
export type KeptRelevance = {
  labels: readonly string[]
  fits: Float32Array
  matches: Uint32Array
  first: number
}

/** One signal's, as an answer shows it. */
export type ShownRelevance = {
  signal_agent_segment_id: string
  /** 0 to 1, against the best of the answer; absent for what only an upstream or a reference brought. */
  fit?: number
  has: string[]
  lacks: string[]
}

const HUNDREDTHS = 100

/** In the order of the answer. */
export function keepRelevance({ labels, of, first }: Relevance, hits: readonly number[]): KeptRelevance {
  return {
    ...{ labels, first },
    fits: Float32Array.from(hits, (hit) => of.get(hit)?.fit ?? 0),
    matches: Uint32Array.from(hits, (hit) => of.get(hit)?.match ?? 0),
  }
}

/** The signal at this place of the order; `handle` names it. */
export function shownRelevance(
  { labels, fits, matches }: KeptRelevance,
  place: number,
  handle: string,
): ShownRelevance {
  const fit = fits[place] as number
  const has = labels.filter((_, at) => ((matches[place] as number) >>> at) & 1)
  return {
    signal_agent_segment_id: handle,
    ...(fit > 0 && { fit: Math.max(1, Math.round(fit * HUNDREDTHS)) / HUNDREDTHS }),
    has,
    lacks: labels.filter((label) => !has.includes(label)),
  }
}
