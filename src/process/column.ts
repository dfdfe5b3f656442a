/**
 * Columns of numbers in shared memory, which any thread reads as they are (docs/decisions.md#memory-and-threads): of a given length,
 * over bytes that a storage kept, or made of values that come one by one.
 */
const GROWTH = 2 // of a column that is full

/** What a column is made of. */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** Makes columns of one number type: of a given length, or over bytes read from a storage. */
export type Maker<T extends Numbers> = {
  (length: number): T
  over(memory: SharedArrayBuffer): T
}

type Constructor<T> = { new (memory: SharedArrayBuffer): T; readonly BYTES_PER_ELEMENT: number }

function makerOf<T extends Numbers>(Type: Constructor<T>): Maker<T> {
  return Object.assign((length: number) => new Type(new SharedArrayBuffer(length * Type.BYTES_PER_ELEMENT)), {
    over: (memory: SharedArrayBuffer) => new Type(memory),
  })
}

export const u8 = makerOf<Uint8Array>(Uint8Array)
export const u16 = makerOf<Uint16Array>(Uint16Array)
export const u32 = makerOf<Uint32Array>(Uint32Array)
export const f64 = makerOf<Float64Array>(Float64Array)

/** A copy with each value mapped, in shared memory. */
export function mapped<T extends Numbers>(
  make: (length: number) => T,
  from: T,
  value: (of: number, at: number) => number,
): T {
  const to = make(from.length)
  for (let at = 0; at < from.length; at += 1) to[at] = value(from[at] as number, at)
  return to
}

type Column<T extends Numbers> = {
  push(value: number): void
  /** Adds `count` values of `from`, from its place `at` on. */
  pushAll(from: ArrayLike<number>, at: number, count: number): void
  /** The number of values so far. */
  length(): number
  /** The values, in memory of exactly their size. */
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
    pushAll(from, at, count) {
      if (length + count > values.length) values = sized(Math.ceil((length + count) * GROWTH))
      for (let next = 0; next < count; next += 1) values[length + next] = from[at + next] as number
      length += count
    },
    length: () => length,
    finish: () => (length === values.length ? values : sized(length)),
  }
}
