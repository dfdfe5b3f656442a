/**
 * What lies in shared memory, where any thread reads it as it is (docs/decisions.md#memory-and-threads): columns of numbers, of a given
 * length, over bytes that a storage kept, or made of values that come one by one; lists of numbers; and names, one of which is
 * looked up without building an index first. Strangers choose the names, so the hash of each table has its own seed: nobody can
 * choose names that collide.
 */
import { randomInt } from 'node:crypto'
import { mixed } from './remembered.js'

const GROWTH = 2 // of a column that is full
const MAX_SEED = 2 ** 32
const encoder = new TextEncoder()
const decoder = new TextDecoder()
let scratch = new Uint8Array(1_024)

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

/** A list of lists: list `n` is in `items` from `starts[n]` up to (excluding) `starts[n + 1]`. */
export type Lists = { readonly starts: Uint32Array; readonly items: Uint32Array }

/** Numbers in shared memory. */
export function sharedNumbers(numbers: ArrayLike<number>): Uint32Array {
  const shared = u32(numbers.length)
  shared.set(numbers)
  return shared
}

export type NewLists = ReturnType<typeof createLists>

/** Lists whose items come one by one, list after list. Four bytes each while they come, because a file may name a million. */
export function createLists() {
  const starts = createColumn(u32, 0)
  const items = createColumn(u32, 0)
  starts.push(0)

  return {
    /** Adds an item to the list that is not ended yet. */
    add: items.push,
    /** Ends that list; the next item begins another. */
    end: () => starts.push(items.length()),
    /** The lists that are ended. */
    finish: (): Lists => ({ starts: starts.finish(), items: items.finish() }),
  }
}

/** The same lists in shared memory. */
export function sharedLists(lists: Iterable<readonly number[]>): Lists {
  const made = createLists()
  for (const list of lists) {
    for (const item of list) made.add(item)
    made.end()
  }
  return made.finish()
}

/** Names, numbered from 0 in the order in which they came. */
export type NameTable = {
  /** The names in UTF-8, one after another; name `n` ends where name `n + 1` begins. */
  readonly bytes: Uint8Array
  readonly starts: Uint32Array
  /** Open addressing: number + 1 of a name, 0 where there is none. The length is a power of two. */
  readonly slots: Uint32Array
  readonly seed: number
}

function encoded(text: string): Uint8Array {
  if (scratch.length < text.length * 3) scratch = new Uint8Array(text.length * 3)
  return scratch.subarray(0, encoder.encodeInto(text, scratch).written)
}

/** FNV-1a from a seed, its bits mixed once more at the end. */
function hash(bytes: Uint8Array, from: number, to: number, seed: number): number {
  let value = seed
  for (let i = from; i < to; i += 1) value = Math.imul(value ^ (bytes[i] as number), 0x01000193)
  return mixed(value)
}

function isAt({ bytes, starts }: NameTable, number: number, name: Uint8Array): boolean {
  const start = starts[number] as number
  if ((starts[number + 1] as number) - start !== name.length) return false
  for (let i = 0; i < name.length; i += 1) if (bytes[start + i] !== name[i]) return false
  return true
}

/** The number of a name; -1 when the table does not have it. */
export function findName(table: NameTable, name: string): number {
  const { slots, seed } = table
  const mask = slots.length - 1
  const wanted = encoded(name)
  for (let at = hash(wanted, 0, wanted.length, seed) & mask; ; at = (at + 1) & mask) {
    const number = (slots[at] as number) - 1
    if (number < 0 || isAt(table, number, wanted)) return number
  }
}

/** The name with this number. */
export function nameAt({ bytes, starts }: NameTable, number: number): string {
  return decoder.decode(bytes.subarray(starts[number], starts[number + 1]))
}

/** How many names the table has; their numbers begin at 0. */
export function nameCount({ starts }: NameTable): number {
  return starts.length - 1
}

/** Numbers names in the order in which they are added, then makes the table. */
export function createNames() {
  const numbers = new Map<string, number>()
  const names: string[] = []
  let last = -1

  function add(name: string): number {
    // Most lists have the names in one order: what follows the last one is compared before all are searched.
    if (names[last + 1] === name) last += 1
    else last = numbers.get(name) ?? addNew(name)
    return last
  }

  function addNew(name: string): number {
    numbers.set(name, names.length)
    return names.push(name) - 1
  }

  function table(): NameTable {
    const starts = u32(numbers.size + 1)
    for (const [name, number] of numbers) {
      starts[number + 1] = (starts[number] as number) + Buffer.byteLength(name)
    }
    const bytes = u8(starts[numbers.size] as number)
    const text = Buffer.from(bytes.buffer)
    const seed = randomInt(MAX_SEED)
    const mask = 2 ** Math.ceil(Math.log2(2 * numbers.size + 1)) - 1
    const slots = u32(mask + 1)
    for (const [name, number] of numbers) {
      const start = starts[number] as number
      text.write(name, start)
      let at = hash(bytes, start, starts[number + 1] as number, seed) & mask
      while (slots[at] !== 0) at = (at + 1) & mask
      slots[at] = number + 1
    }
    return { bytes, starts, slots, seed }
  }

  return { add, table, size: () => numbers.size }
}
