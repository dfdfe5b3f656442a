/**
 * A growing set of digests in typed arrays: a set of two million strings takes hundreds of megabytes of heap, this one
 * 32. Digests are as good as random, so a slot is found by their own bits.
 */
const FIRST_SLOTS = 1_024

export function createDigestSet() {
  let slots = new Uint32Array(FIRST_SLOTS * 2) // low and high word of each; a low word of 0 is an empty slot
  let count = 0

  /** Gives whether the digest is new in `table`. */
  function put(table: Uint32Array, low: number, high: number): boolean {
    const mask = table.length / 2 - 1
    let slot = high & mask
    while (table[slot * 2] !== 0) {
      if (table[slot * 2] === low && table[slot * 2 + 1] === high) return false
      slot = (slot + 1) & mask
    }
    table[slot * 2] = low
    table[slot * 2 + 1] = high
    return true
  }

  function grow(): void {
    const larger = new Uint32Array(slots.length * 2)
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0) put(larger, slots[at] as number, slots[at + 1] as number)
    }
    slots = larger
  }

  return {
    /** Gives whether it was not there before. */
    add(low: number, high: number): boolean {
      if (count * 4 >= slots.length) grow()
      const isNew = put(slots, low || 1, high)
      if (isNew) count += 1
      return isNew
    },
  }
}
