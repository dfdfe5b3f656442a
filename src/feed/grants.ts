/**
 * Activation keys for readers who may see them (docs/decisions.md#callers; specification, Rules for destinations 3).
 * The keys stand in the private slices and are copied from there for one reader; shared rows never hold a key.
 */
import type { ActivationKey } from '../adcp/signal.js'
import {
  destinationKey,
  destinationMatcher,
  type MergedDeployment,
  mergeDeployments,
} from '../merge/deployments.js'
import type { Row } from '../merge/row.js'
import type { Piece } from '../merge/row-writer.js'
import { createMeter, type InPortions } from '../process/portions.js'
import { digestText } from '../snapshot/digests.js'
import { keyPiece, type Snapshot, standingListings } from '../snapshot/snapshot.js'
import { destinationTest, shownDeployments } from './filters.js'
import { createNarrowing } from './narrowing.js'
import type { Criteria, Reader } from './query.js'

export type Grants = {
  /** Equal for equal grants; empty for none. */
  readonly name: string
  /** Whether the unnarrowed row of this signal has a key that the reader may see. */
  holds(entry: number): boolean
  /**
   * The keys that the reader may see of a signal, by the place of their deployment in its row, which countries may have
   * narrowed; undefined for a signal without any.
   */
  keysOf(entry: number, narrowed: Row | undefined): ((order: number) => Piece | undefined) | undefined
  /**
   * A hash of the keys that are shown of these signals: part of this reader's answer, and so of its version. Absent
   * without grants.
   */
  digest?(entries: Uint32Array): InPortions<string>
}

const NONE: Grants = { name: '', holds: () => false, keysOf: () => undefined }

function written(key: ActivationKey | undefined): Piece | undefined {
  if (!key) return undefined
  const from = Buffer.from(JSON.stringify(key))
  return { from, start: 0, end: from.byteLength }
}

/** Destination keys, sorted. The name is JSON: what a platform is called may hold anything that would separate keys. */
type Granted = { keys: readonly string[]; name: string }

/** Of a reader, who is the same object for all requests of a caller (activation/accounts.ts). */
const grantedTo = new WeakMap<Reader, Granted>()

function grantedOf(reader: Reader): Granted {
  const found = grantedTo.get(reader)
  if (found) return found
  const keys = reader.grants
    .map(destinationKey)
    .filter((key) => key !== undefined)
    .sort()
  const made = { keys, name: keys.length === 0 ? '' : JSON.stringify(keys) }
  grantedTo.set(reader, made)
  return made
}

/** The name of a reader's grants; empty for none. Equal names mean equal grants. */
export function grantsName(reader: Reader): string {
  return reader.grants.length === 0 || reader.visibility === 'metadata' ? '' : grantedOf(reader).name
}

/** `criteria` choose which deployments and offers of a signal are shown. */
export function createGrants(
  snapshot: Snapshot,
  reader: Reader,
  { countries, destinations }: Pick<Criteria, 'countries' | 'destinations'>,
): Grants {
  const { keys: granted, name } = grantedOf(reader)
  if (granted.length === 0 || reader.visibility === 'metadata') return NONE
  const meter = createMeter()
  const isGrantedNumber = destinationTest(snapshot, granted)
  const isWanted = destinations && destinationTest(snapshot, destinations)
  const narrowing = createNarrowing(snapshot, countries, meter)
  const { at, destination, key } = snapshot.deployments

  const isGranted = destinationMatcher(granted)
  const isVisible = (one: number) =>
    (key[one * 2] !== 0 || key[one * 2 + 1] !== 0) && isGrantedNumber(destination[one] as number, meter)

  function holds(entry: number): boolean {
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (isVisible(one)) return true
    }
    return false
  }

  function keysOfNarrowed({ deployments }: Row) {
    return (order: number) => {
      const one = deployments[order]
      return one && isGranted(one.key) ? written(one.activationKey) : undefined
    }
  }

  function keysOf(entry: number, narrowed: Row | undefined) {
    if (narrowed) return keysOfNarrowed(narrowed)
    if (!holds(entry)) return undefined
    const first = at[entry] as number
    let parsed: readonly MergedDeployment[] | undefined
    return (order: number) => {
      if (!isVisible(first + order)) return undefined
      const piece = keyPiece(snapshot, entry, first + order)
      if (piece) return piece
      parsed ??= mergeDeployments(standingListings(snapshot, entry)).deployments
      return written(parsed[order]?.activationKey)
    }
  }

  /** Two words per deployment that is shown; zeros for no key. */
  function wordsOf(entry: number): number[] {
    const narrowed = narrowing.factsOf(entry)
    if (narrowed) {
      return shownDeployments(narrowed, destinations).flatMap((one) =>
        isGranted(one.key) ? one.secret : [0, 0],
      )
    }
    const words: number[] = []
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (isWanted && !isWanted(destination[one] as number, meter)) continue
      words.push(...(isVisible(one) ? [key[one * 2] as number, key[one * 2 + 1] as number] : [0, 0]))
    }
    return words
  }

  function* digest(entries: Uint32Array): InPortions<string> {
    const found: number[] = []
    for (const [order, entry] of entries.entries()) {
      wordsOf(entry).forEach((word, place) => {
        if (word !== 0) found.push(order, place, word)
      })
      meter.did(1 + ((at[entry + 1] as number) - (at[entry] as number)))
      if (meter.isDue()) yield
    }
    return found.length === 0 ? '' : digestText(Uint32Array.from(found))
  }

  return { name, holds, keysOf, digest }
}
