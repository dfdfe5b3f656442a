/**
 * A published row for a reader who names countries: only what the offers that may be used there give
 * (docs/decisions.md#trust). What the signal is stays the same, above all its restrictions. Its deployments, prices,
 * coverage and countries are merged again from the remaining offers.
 */
import type { SignalRef } from '../adcp/reference.js'
import type { Conflict } from './definition.js'
import { offerHandle } from './identity.js'
import type { Provenance, SoldBy } from './offer.js'
import { type Row, type Standing, writeRow } from './row.js'

/** The members of a published row that narrowing reads or writes anew. */
export type PublishedRow = {
  signal_agent_segment_id: string
  signal_ref: SignalRef
  signal_id?: unknown
  coverage_percentage?: unknown
  coverage_forecast?: unknown
  countries?: unknown
  deployments?: unknown
  pricing_options?: unknown
  ext: {
    tributary: { offers: readonly Provenance[]; restricted_attributes?: string[]; conflicts?: Conflict[] }
  }
}

function conflictsAmong(conflicts: readonly Conflict[], kept: readonly Standing[]): Conflict[] {
  const upstreams = new Set(kept.map(({ seller }) => seller.upstream))
  return conflicts
    .map((conflict) => ({ ...conflict, upstreams: conflict.upstreams.filter((one) => upstreams.has(one)) }))
    .filter((conflict) => conflict.upstreams.length > 0)
}

/** `sold`: the listings that the row is made from. Undefined when no offer may be used in any of the countries. */
export function narrowRow(
  row: PublishedRow,
  sold: readonly SoldBy[],
  countries: readonly string[],
): Row | undefined {
  const {
    signal_agent_segment_id: handle,
    signal_ref: ref,
    signal_id: _,
    coverage_percentage: __,
    coverage_forecast: ___,
    countries: ____,
    deployments: _____,
    pricing_options: ______,
    ext: { tributary },
    ...fields
  } = row
  const listings = new Map(
    sold.map(({ agentUrl, listing }) => [
      offerHandle(handle, agentUrl, listing.signal_agent_segment_id),
      listing,
    ]),
  )
  const kept = tributary.offers.flatMap((offer): Standing[] => {
    const { countries: bound, coverage_percentage: _, deployments: __, ...seller } = offer
    const listing = listings.get(offer.handle)
    const isUsable = !bound || bound.some((country) => countries.includes(country))
    return listing && isUsable ? [{ seller, listing, countries: bound }] : []
  })
  if (kept.length === 0) return undefined
  return writeRow(
    {
      handle,
      ref,
      fields,
      restrictions: tributary.restricted_attributes ?? [],
      conflicts: conflictsAmong(tributary.conflicts ?? [], kept),
    },
    kept,
  )
}
