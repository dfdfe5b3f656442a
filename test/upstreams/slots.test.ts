import { test } from 'tap'
import { slotOf } from '../../src/upstreams/rows/slice.js'

const MASK = 2 ** 16 - 1

/** How many slots digests have that a stranger chose: they differ in some bits of their words only. */
function slotsOf(count: number, words: (at: number) => [low: number, high: number]): number {
  return new Set(Array.from({ length: count }, (_, at) => slotOf(...words(at), MASK))).size
}

test('digests that begin or end alike have slots of their own', async (t) => {
  const count = 4_000
  const cases: Record<string, (at: number) => [low: number, high: number]> = {
    'low bits of the low word': (at) => [(at << 20) >>> 0, 7],
    'high bits of the low word': (at) => [at, 7],
    'low bits of the high word': (at) => [7, (at << 20) >>> 0],
    'high bits of the high word': (at) => [7, at],
    'low bits of both': (at) => [(at << 20) >>> 0, (Math.imul(at, 31) << 20) >>> 0],
  }
  for (const [alike, words] of Object.entries(cases)) {
    const slots = slotsOf(count, words)
    t.ok(slots > (count * 3) / 4, `${alike}: ${slots} slots`)
  }
})

test('a slot is within its table', async (t) => {
  for (const bits of [1, 10, 31]) {
    const slot = slotOf(0xffffffff, 0xfffffffe, 2 ** bits - 1)
    t.ok(slot >= 0 && slot < 2 ** bits)
  }
})
