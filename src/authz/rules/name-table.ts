/**
 * Strings and their numbers in shared memory: any thread can look a name up without building an index first. Strangers
 * choose the names, so the hash of each table has its own seed: nobody can choose names that collide.
 */
import { randomInt } from 'node:crypto'
import { mixed } from '../../process/remembered.js'

export type NameTable = {
  /** The names in UTF-8, one after another; name `n` ends where name `n + 1` begins. */
  readonly bytes: Uint8Array
  readonly starts: Uint32Array
  /** Open addressing: number + 1 of a name, 0 where there is none. The length is a power of two. */
  readonly slots: Uint32Array
  readonly seed: number
}

const MAX_SEED = 2 ** 32
const encoder = new TextEncoder()
const decoder = new TextDecoder()
let scratch = new Uint8Array(1_024)

/** A list of numbers in shared memory. */
export function sharedNumbers(numbers: ArrayLike<number>): Uint32Array {
  const shared = new Uint32Array(new SharedArrayBuffer(numbers.length * Uint32Array.BYTES_PER_ELEMENT))
  shared.set(numbers)
  return shared
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

  function add(name: string): number {
    const known = numbers.get(name)
    if (known !== undefined) return known
    numbers.set(name, numbers.size)
    return numbers.size - 1
  }

  function table(): NameTable {
    const encodedNames = [...numbers.keys()].map((name) => encoder.encode(name))
    const starts = new Uint32Array(new SharedArrayBuffer((encodedNames.length + 1) * 4))
    let end = 0
    for (const [number, name] of encodedNames.entries()) {
      end += name.length
      starts[number + 1] = end
    }
    const bytes = new Uint8Array(new SharedArrayBuffer(end))
    const seed = randomInt(MAX_SEED)
    const mask = 2 ** Math.ceil(Math.log2(2 * encodedNames.length + 1)) - 1
    const slots = new Uint32Array(new SharedArrayBuffer((mask + 1) * 4))
    for (const [number, name] of encodedNames.entries()) {
      bytes.set(name, starts[number])
      let at = hash(name, 0, name.length, seed) & mask
      while (slots[at] !== 0) at = (at + 1) & mask
      slots[at] = number + 1
    }
    return { bytes, starts, slots, seed }
  }

  return { add, table, size: () => numbers.size }
}
