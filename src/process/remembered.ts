/**
 * Texts that come again: numbers that stand for them, whether one came before, and what was found for it, as few distinct parts
 * stand in millions of rows. What was not asked for while as many others came is forgotten: two maps know that without a list of
 * who was asked when. A text may be given as such, or by where it lies in memory: then none is made to look it up. Where it would
 * do harm that two texts of strangers have one number, the number is made under a key that this process alone knows.
 */
import { randomInt } from 'node:crypto'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

const LONGEST = 512 // of a text that is kept: longer ones hardly come again
const MOST = 500_000 // characters of the texts in one map
const EACH = 100 // for what an entry takes besides its text
const SPREAD = 0x9e3779b1 // an odd number whose bits look random
const WORD = 4 // bytes that are read at once
const WINDOW = 64 // bytes by which a known text is looked for
const SLOTS = 64
const EACH_SLOT = 4 // known texts that begin alike
const KEY_NAME = 'tributary: key of numbers'
const [ROUNDS, LAST_ROUNDS] = [2, 4]

/** 32 bits of a text (FNV-1a): the same in every process and release. Strangers can make many texts of one hash. */
export function textHash(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}

/** Every bit of the one number changes half of the bits of the other (MurmurHash3's last step). */
export function mixed(of: number): number {
  let bits = of
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/**
 * Tells whether a text came before, and notes that it did, in fixed memory and without keeping the text: by a hash at one of
 * so many places (a power of two). A text is forgotten when it is told to have come, or when another takes its place; two
 * texts of one hash are one. For those who lose little when it is wrong.
 */
export function createSeen(places: number): (text: string) => boolean {
  const hashes = new Uint32Array(places)
  return (text) => {
    const hash = textHash(text)
    const place = hash & (places - 1)
    const isSeen = hashes[place] === hash
    hashes[place] = isSeen ? 0 : hash
    return isSeen
  }
}

/** Two maps in turn: what is in neither was forgotten, or never came. */
function createTwoMaps<K, V>() {
  let recent = new Map<K, V>()
  let earlier = recent
  let size = 0
  return {
    recent: (key: K) => recent.get(key),
    earlier: (key: K) => earlier.get(key),
    keep(key: K, value: V, length: number): void {
      if (size > MOST) {
        earlier = recent
        recent = new Map()
        size = 0
      }
      size += length + EACH
      recent.set(key, value)
    },
  }
}

/** The same function, which remembers what it gave for short texts. */
export function remembered<T extends object | string | boolean>(
  make: (text: string) => T,
): (text: string) => T {
  const known = createTwoMaps<string, T>()
  return (text) => {
    const found = known.recent(text)
    if (found !== undefined) return found
    const value = known.earlier(text) ?? make(text)
    // A copy is kept: a part of a text keeps the whole.
    if (text.length <= LONGEST) known.keep(Buffer.from(text).toString(), value, text.length)
    return value
  }
}

/** A memory, to be read by bytes and by words; places in it count from its first byte. */
export type Memory = { readonly bytes: Buffer; readonly view: DataView }

const memories = new WeakMap<ArrayBufferLike, Memory>()

/** The memory that the bytes lie in. */
export function wholeMemory({ buffer }: ArrayBufferView): Memory {
  const known = memories.get(buffer)
  if (known) return known
  const memory = { bytes: Buffer.from(buffer), view: new DataView(buffer) }
  memories.set(buffer, memory)
  return memory
}

/** A number for the bytes from `start` to `end` (excluded). Strangers can make many texts of one number. */
function numberOf(view: DataView, start: number, end: number): number {
  let number = end - start
  let at = start
  for (; at + WORD <= end; at += WORD) {
    number = Math.imul(number ^ view.getUint32(at, true), SPREAD)
    number ^= number >>> 15
  }
  for (; at < end; at += 1) number = Math.imul(number ^ view.getUint8(at), SPREAD)
  return number
}

/** All threads of the process share one, and it never leaves the process. */
export type NumberKey = readonly [low: number, high: number]

/** Threads that are started from here on have it as well. */
function keyOfProcess(): NumberKey {
  const given = getEnvironmentData(KEY_NAME) as unknown as NumberKey | undefined
  const key: NumberKey = given ?? [randomInt(2 ** 32), randomInt(2 ** 32)]
  if (!given) setEnvironmentData(KEY_NAME, [...key])
  return key
}

const KEY = keyOfProcess()

/**
 * Puts 64 bits of the bytes from `start` to `end` (excluded) into `words` as its `index`th number, which takes two of them:
 * HalfSipHash-2-4 (J.-P. Aumasson, D. J. Bernstein: "SipHash: a fast short-input PRF") under the key of this process, so that
 * nobody can make two texts of one number. A cryptographic hash of a short text takes four times as long.
 */
export function putKeyed(
  words: Uint32Array,
  index: number,
  { view }: Memory,
  start: number,
  end: number,
  [low, high] = KEY,
): void {
  let [v0, v1, v2, v3] = [low, high ^ 0xee, low ^ 0x6c796765, high ^ 0x74656462]
  const whole = (end - start) >> 2
  // A step for each whole word, one for the bytes after them with the length, and one for each half of the number.
  for (let step = 0; step <= whole + 2; step += 1) {
    let word = 0
    if (step < whole) word = view.getInt32(start + step * 4, true)
    else if (step === whole) {
      word = (end - start) << 24
      for (let at = start + whole * 4; at < end; at += 1) word |= view.getUint8(at) << ((at - start) * 8)
    } else if (step === whole + 1) v2 ^= 0xee
    else v1 ^= 0xdd
    v3 ^= word
    for (let round = step > whole ? LAST_ROUNDS : ROUNDS; round > 0; round -= 1) {
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
    }
    v0 ^= word
    if (step > whole) words[index * 2 + step - whole - 1] = v1 ^ v3
  }
}

/** A text of its own, to be looked for in memories. Its length stands beside it: a view is slow to tell. */
export type Text = { readonly view: DataView; readonly length: number }

/** Whether so many bytes are the same from one place on and from another. Words are read in the order of most processors. */
export function areSame(a: DataView, atA: number, b: DataView, atB: number, length: number): boolean {
  let at = 0
  for (; at + WORD <= length; at += WORD) {
    if (a.getInt32(atA + at, true) !== b.getInt32(atB + at, true)) return false
  }
  for (; at < length; at += 1) if (a.getUint8(atA + at) !== b.getUint8(atB + at)) return false
  return true
}

/** Whether the bytes from `start` on, of which there are enough, are those of the text. */
export const isSame = ({ view: text, length }: Text, view: DataView, start: number): boolean =>
  areSame(text, 0, view, start, length)

/** A copy: a view would keep the whole memory. */
export function ownText(bytes: Uint8Array): Text {
  return { view: new DataView(Uint8Array.from(bytes).buffer), length: bytes.byteLength }
}

type Kept<T> = { readonly text: Text; readonly value: T }

/**
 * `remembered` for texts that lie in a memory from one place to another (excluded): what was remembered is found without making
 * a text. Of several texts with one number the last is remembered.
 */
export function rememberedBytes<T>(
  make: (text: string) => T,
): (memory: Memory, start: number, end: number) => T {
  const known = createTwoMaps<number, Kept<T>>()
  const isIt = (kept: Kept<T> | undefined, view: DataView, start: number, end: number): kept is Kept<T> =>
    kept !== undefined && kept.text.length === end - start && isSame(kept.text, view, start)
  return ({ bytes, view }, start, end) => {
    const number = numberOf(view, start, end)
    const recent = known.recent(number)
    if (isIt(recent, view, start, end)) return recent.value
    const text = bytes.toString('utf8', start, end)
    const earlier = known.earlier(number)
    const value = isIt(earlier, view, start, end) ? earlier.value : make(text)
    if (end - start <= LONGEST)
      known.keep(number, { text: ownText(bytes.subarray(start, end)), value }, end - start)
    return value
  }
}

/**
 * Texts that came lately, found by where one begins: what is known need not be walked through to find its end. Only texts
 * that end where they end whatever follows, as an object does in JSON.
 */
export function createKnownTexts() {
  const texts: (Text | undefined)[] = new Array(SLOTS * EACH_SLOT).fill(undefined)
  let next = 0
  const slotOf = (view: DataView, start: number) =>
    (numberOf(view, start, start + WINDOW) & (SLOTS - 1)) * EACH_SLOT
  return {
    /** Where the text that stands at `start` ends; 0 when none that is known does. `end`: of what may be read. */
    endOf({ view }: Memory, start: number, end: number): number {
      if (start + WINDOW > end) return 0
      const slot = slotOf(view, start)
      for (let at = slot; at < slot + EACH_SLOT; at += 1) {
        const text = texts[at]
        if (text && start + text.length <= end && isSame(text, view, start)) return start + text.length
      }
      return 0
    },
    keep({ bytes, view }: Memory, start: number, end: number): void {
      if (end - start < WINDOW || end - start > LONGEST) return
      next = (next + 1) % EACH_SLOT
      texts[slotOf(view, start) + next] = ownText(bytes.subarray(start, end))
    },
  }
}
