/**
 * Activation keys for those who may see them (DESIGN 5.6; specification, Rules for destinations 3). Keys are read from
 * the private slices, row by row, for the reader who is answered; shared rows never hold one.
 */
import type { ActivationKey } from '../adcp/signal.js'
import { destinationKey, mergeDeployments } from '../merge/deployments.js'
import { digestText } from './digest.js'
import type { Reader } from './query.js'
import { type Snapshot, standingListings } from './snapshot.js'
import { destinationFlags } from './view.js'

export type Grants = {
  /** Equal for equal grants; empty when there are none. */
  readonly name: string
  /** Whether the reader may see a key of this signal. */
  holds(entry: number): boolean
  /** Keys of the signal that the reader may see, by deployment in the row's order. */
  keysOf(entry: number): (ActivationKey | undefined)[]
  /** What the keys of these signals hash to: part of what this reader is answered, so part of its version. */
  digest(entries: Uint32Array): string
}

const NONE: Grants = { name: '', holds: () => false, keysOf: () => [], digest: () => '' }

export function createGrants(snapshot: Snapshot, reader: Reader): Grants {
  const granted = reader.grants.map(destinationKey).filter((key) => key !== undefined)
  if (granted.length === 0 || reader.visibility === 'metadata') return NONE
  const flags = destinationFlags(snapshot, granted)
  const { at, destination, key } = snapshot.deployments

  const isVisible = (one: number) =>
    flags[destination[one] as number] === 1 && (key[one * 2] !== 0 || key[one * 2 + 1] !== 0)

  function holds(entry: number): boolean {
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (isVisible(one)) return true
    }
    return false
  }

  function keysOf(entry: number): (ActivationKey | undefined)[] {
    const first = at[entry] as number
    const { deployments } = mergeDeployments(standingListings(snapshot, entry))
    return deployments.map(({ activationKey }, order) =>
      isVisible(first + order) ? activationKey : undefined,
    )
  }

  function digest(entries: Uint32Array): string {
    const words: number[] = []
    entries.forEach((entry, order) => {
      for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
        if (isVisible(one))
          words.push(order, one - (at[entry] as number), key[one * 2] as number, key[one * 2 + 1] as number)
      }
    })
    return words.length === 0 ? '' : digestText(Uint32Array.from(words))
  }

  return { name: granted.sort().join(' '), holds, keysOf, digest }
}
