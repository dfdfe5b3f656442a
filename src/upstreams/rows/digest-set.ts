/**
 * A growing set of digests in typed arrays: a set of two million strings or numbers takes hundreds of megabytes of
 * heap, this one 32. Digests are as good as random, so a slot is found by their own bits.
 */
const FIRST_SLOTS = 1_024

/** Numbers that are equal for half of what an attacker can compute are still his own rows: he hurts only himself. */
export function createDigestSet() {
  let slots = new BigUint64Array(FIRST_SLOTS) // 0 is an empty slot
  let count = 0

  /** Gives whether the digest is new in `table`. */
  function put(table: BigUint64Array, digest: bigint): boolean {
    const mask = table.length - 1
    let slot = Number(digest & BigInt(mask))
    while (table[slot] !== 0n) {
      if (table[slot] === digest) return false
      slot = (slot + 1) & mask
    }
    table[slot] = digest
    return true
  }

  function grow(): void {
    const larger = new BigUint64Array(slots.length * 2)
    for (const digest of slots) if (digest !== 0n) put(larger, digest)
    slots = larger
  }

  return {
    /** Gives whether it was not there before. */
    add(digest: bigint): boolean {
      if (count * 2 >= slots.length) grow()
      const isNew = put(slots, digest || 1n)
      if (isNew) count += 1
      return isNew
    },
  }
}
