/**
 * Numbers of 64 bits by which texts that strangers write are told apart: HalfSipHash-2-4 (J.-P. Aumasson, D. J. Bernstein:
 * "SipHash: a fast short-input PRF") under a key that this process alone knows, so nobody can make two texts of one number. A
 * cryptographic hash of a short text takes four times as long. All threads of the process share the key, and none of it leaves it.
 */
import { randomInt } from 'node:crypto'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'
import type { Memory } from './remembered.js'

export type NumberKey = readonly [low: number, high: number]

const NAME = 'tributary: key of numbers'

/** Threads that are started from here on have it as well. */
function keyOfProcess(): NumberKey {
  const given = getEnvironmentData(NAME) as unknown as NumberKey | undefined
  const key: NumberKey = given ?? [randomInt(2 ** 32), randomInt(2 ** 32)]
  if (!given) setEnvironmentData(NAME, [...key])
  return key
}

const KEY = keyOfProcess()
const [ROUNDS, LAST_ROUNDS] = [2, 4]

/** Puts the number of the bytes from `start` to `end` (excluded) into `words` as its `index`th, which takes two of them. */
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
