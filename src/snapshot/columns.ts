/**
 * Columns of numbers in shared memory: what a snapshot knows about its signals beside their bytes. A worker fills them,
 * the serving thread reads the same memory (docs/decisions.md#memory-and-threads: columns filter 1M rows in 1 ms).
 */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

const GROWTH = 1.25

export const u8 = (length: number) => new Uint8Array(new SharedArrayBuffer(length))
export const u16 = (length: number) => new Uint16Array(new SharedArrayBuffer(length * 2))
export const u32 = (length: number) => new Uint32Array(new SharedArrayBuffer(length * 4))
export const f64 = (length: number) => new Float64Array(new SharedArrayBuffer(length * 8))

/** Each value anew, in shared memory. */
export function mapped<T extends Numbers>(
  make: (length: number) => T,
  from: T,
  value: (of: number, at: number) => number,
): T {
  const to = make(from.length)
  for (let at = 0; at < from.length; at += 1) to[at] = value(from[at] as number, at)
  return to
}

export type Column<T extends Numbers> = {
  push(value: number): void
  /** Values so far. */
  length(): number
  /** Begins anew, in the same memory. */
  clear(): void
  /** The values in memory of exactly their size. */
  finish(): T
}

/** A column that grows. `capacity` is a guess of its final length. */
export function createColumn<T extends Numbers>(make: (length: number) => T, capacity: number): Column<T> {
  let values = make(Math.max(16, capacity))
  let length = 0

  function sized(to: number): T {
    const next = make(to)
    next.set(values.subarray(0, Math.min(length, to)))
    return next
  }

  return {
    push(value) {
      if (length === values.length) values = sized(Math.ceil(length * GROWTH))
      values[length] = value
      length += 1
    },
    length: () => length,
    clear() {
      length = 0
    },
    finish: () => (length === values.length ? values : sized(length)),
  }
}

/** Words for numbers: a column keeps the number, the list keeps the word once. */
export function createWords() {
  const ids = new Map<string, number>()
  const list: string[] = []

  function id(word: string): number {
    const known = ids.get(word)
    if (known !== undefined) return known
    ids.set(word, list.length)
    return list.push(word) - 1
  }

  return { id, list: list as readonly string[] }
}
