/**
 * One order out of several: reciprocal rank fusion (Cormack, Clarke, Buettcher, 2009). Scores of different searchers do
 * not compare, places do. The result depends on the lists alone, not on when each arrived.
 */

/** Dampens the first places, so that one searcher's favourite does not outweigh what several agree on. */
const DAMPING = 60

export type RankedList = {
  /** Best first, each once. */
  ids: ArrayLike<number>
  weight: number
  /** How well each id fits, 0 to 1, where the list knows: a weak place counts for less. Default: all alike. */
  fits?: ArrayLike<number>
}

/** All ids of the lists, best first; equals by their number. */
export function fuse(lists: readonly RankedList[]): number[] {
  const places = new Map<number, number[]>()
  for (const { ids, weight, fits } of lists) {
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] as number
      const share = ((fits?.[at] ?? 1) * weight) / (DAMPING + at + 1)
      const shares = places.get(id)
      if (shares) shares.push(share)
      else places.set(id, [share])
    }
  }
  // Shares are summed by size: floating point sums depend on their order, and lists come in any.
  const scored = Array.from(places, ([id, shares]) => ({
    id,
    score: shares.sort((one, other) => one - other).reduce((sum, share) => sum + share, 0),
  }))
  return scored.sort((one, other) => other.score - one.score || one.id - other.id).map(({ id }) => id)
}
