/**
 * Who of several members does a piece of work, agreed on without asking (rendezvous hashing): each member has a score for
 * each name, and the highest wins. Names spread evenly, and when a member comes or goes only the names that it wins, or
 * had won, move.
 */

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}

/** Every bit of the one number changes half of the bits of the other (MurmurHash3's last step). */
function mixed(of: number): number {
  let bits = of
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** The winner of a name among all but `except`. */
type Rendezvous = (name: string, except?: readonly string[]) => string | undefined

/** Gives the winner of a name among `members`, in whatever order they are named; undefined when there are none. */
export function createRendezvous(members: readonly string[]): Rendezvous {
  const hashed = [...members].sort().map((member) => ({ member, hash: mixed(hashOf(member)) }))
  return (name, except = []) => {
    const hash = hashOf(name)
    let winner: string | undefined
    let highest = -1
    for (const one of hashed) {
      if (except.includes(one.member)) continue
      const score = mixed(hash ^ one.hash)
      if (score <= highest) continue
      highest = score
      winner = one.member
    }
    return winner
  }
}
