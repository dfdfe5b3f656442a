/**
 * The signals of a snapshot whose row differs for a reader who names countries: those with offers that may be used in
 * some of them only (`facts.mixed`). Their rows are merged again from the standing listings; all others are shown as
 * they stand, at no cost.
 */
import { narrowRow, type PublishedRow } from '../merge/narrow.js'
import type { Row } from '../merge/row.js'
import { rowAt, type Snapshot, standingListings } from './snapshot.js'

/** The narrowed row of a mixed signal; undefined for what is shown as it stands, or not at all. */
export type Narrowing = (entry: number) => Row | undefined

export function createNarrowing(snapshot: Snapshot, countries: readonly string[] | undefined): Narrowing {
  if (!countries) return () => undefined
  return (entry) =>
    snapshot.facts.mixed[entry]
      ? narrowRow(rowAt(snapshot, entry) as PublishedRow, standingListings(snapshot, entry), countries)
      : undefined
}
