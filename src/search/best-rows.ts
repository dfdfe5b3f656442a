/** The best rows of many: a heap holds as many as are asked for, the worst of them on top. */

/** Rows by score, the best first; rows with equal scores by number. */
export type RankedRows = { rows: Uint32Array; scores: Float32Array }

const NUMBERS = 2 ** 20 // the most rows in an answer: a place among them and the bits of a score fill a double

/**
 * Sorts rows as plain numbers, which takes a fifth of the time of a comparing function. Loops instead of `from` with a
 * function, which would take longer than the sorting itself.
 */
function ordered(rows: Uint32Array, scoreOf: Float32Array): RankedRows {
  rows.sort()
  const count = rows.length
  const scores = new Float32Array(count)
  for (let at = 0; at < count; at += 1) scores[at] = scoreOf[rows[at] as number] as number
  const bits = new Uint32Array(scores.buffer) // of positive numbers: they sort as the numbers do
  const keys = new Float64Array(count)
  for (let at = 0; at < count; at += 1) keys[at] = (bits[at] as number) * NUMBERS + (NUMBERS - 1 - at)
  keys.sort()
  const ranked = { rows: new Uint32Array(count), scores: new Float32Array(count) }
  for (let at = 0; at < count; at += 1) {
    const key = keys[count - 1 - at] as number
    const place = NUMBERS - 1 - (key - Math.floor(key / NUMBERS) * NUMBERS)
    ranked.rows[at] = rows[place] as number
    ranked.scores[at] = scores[place] as number
  }
  return ranked
}

/** Keeps the best `limit` rows of those that are offered, by `scoreOf`; scores are positive. */
export function createBestRows(limit: number, scoreOf: Float32Array) {
  const most = Math.min(limit, NUMBERS)
  const rows = new Uint32Array(Math.min(most, scoreOf.length))
  const scores = new Float32Array(rows.length)
  let size = 0

  const isWorse = (one: number, other: number) =>
    scores[one] !== scores[other]
      ? (scores[one] as number) < (scores[other] as number)
      : (rows[one] as number) > (rows[other] as number)

  function swap(one: number, other: number): void {
    const [row, score] = [rows[one] as number, scores[one] as number]
    rows[one] = rows[other] as number
    scores[one] = scores[other] as number
    rows[other] = row
    scores[other] = score
  }

  function sink(): void {
    for (let at = 0, child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && isWorse(child + 1, child)) child += 1
      if (!isWorse(child, at)) return
      swap(child, at)
      at = child
    }
  }

  function rise(): void {
    for (let at = size - 1; at > 0; ) {
      const parent = (at - 1) >> 1
      if (!isWorse(at, parent)) return
      swap(at, parent)
      at = parent
    }
  }

  function offer(row: number): void {
    const score = scoreOf[row] as number
    if (size < rows.length) {
      rows[size] = row
      scores[size] = score
      size += 1
      rise()
      return
    }
    const worst = scores[0] as number
    if (score < worst || (score === worst && row > (rows[0] as number))) return
    rows[0] = row
    scores[0] = score
    sink()
  }

  return { offer, ranked: () => ordered(rows.slice(0, size), scoreOf) }
}
