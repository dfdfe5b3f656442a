/** Room that several share: nobody's many leave no room for another's few. */

/**
 * Of each list its first items: the short ones whole, the long ones equally cut, `most` in all. Where there are more lists than
 * room, the first ones have one item each.
 */
export function fairShares<T>(lists: readonly (readonly T[])[], most: number): T[][] {
  let room = most
  let share = Number.POSITIVE_INFINITY
  const lengths = lists.map(({ length }) => length).sort((a, b) => a - b)
  for (const [at, length] of lengths.entries()) {
    share = Math.floor(room / (lengths.length - at))
    if (length > share) break
    room -= length
    share = Number.POSITIVE_INFINITY
  }
  let left = most
  return lists.map((list) => {
    const part = list.slice(0, Math.min(Math.max(share, 1), left))
    left -= part.length
    return part
  })
}
