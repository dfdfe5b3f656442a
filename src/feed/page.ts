/**
 * A page out of bytes. A row that is shown as it stands is never parsed: rows in sequence go out as one piece. A row is
 * taken apart only where this reader's answer differs from the shared bytes: destinations left out, fields not asked
 * for, offers that cannot serve the countries, keys that it may see.
 */
import type { AdcpWarning } from '../adcp/error.js'
import type { ActivationKey, Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import { published } from '../merge/published.js'
import type { Provenance } from '../merge/signal.js'
import type { Criteria } from './canonical.js'
import type { Grants } from './grants.js'
import { handleAt, headBytes, rowAt, type Snapshot } from './snapshot.js'
import { destinationFlags } from './view.js'

type PublishedRow = {
  signal_agent_segment_id: string
  deployments: (Destination & { activation_key?: ActivationKey })[]
  pricing_options?: { pricing_option_id: string }[]
  countries?: string[]
  ext: { tributary: { offers: Provenance[] } }
} & Record<string, unknown>

export type Shape = {
  criteria: Criteria
  fields?: readonly string[]
  seesPrices: boolean
  grants: Grants
}

const encoder = new TextEncoder()
const COMMA = encoder.encode(',')
const END_OF_HEAD = encoder.encode('}')
const END_OF_HEAD_AND_NEXT = encoder.encode('},')
const PROJECTED = new Set(Object.keys(published))

/** `fields` chooses among the optional descriptive fields; what identifies, activates and prices stays. */
function withoutUnasked(row: PublishedRow, fields: readonly string[]): void {
  for (const name of Object.keys(row)) {
    if (PROJECTED.has(name) && !fields.includes(name)) delete row[name]
  }
}

/** Leaves out offers that may serve none of the countries, with their prices and what only they deploy. */
function narrowed(row: PublishedRow, countries: readonly string[]): void {
  const { tributary } = row.ext
  const kept = tributary.offers.filter(
    (offer) => !offer.countries || offer.countries.some((country) => countries.includes(country)),
  )
  tributary.offers = kept
  const targets = new Set(kept.flatMap(({ deployments }) => deployments))
  row.deployments = row.deployments.filter((one) => targets.has(destinationKey(one) ?? ''))
  const options = row.pricing_options?.filter(({ pricing_option_id: id }) =>
    kept.some(({ handle }) => id.startsWith(`${handle}.`)),
  )
  if (options && options.length > 0) row.pricing_options = options
  else delete row.pricing_options
}

function onlyDestinations(row: PublishedRow, asked: readonly string[]): void {
  const isAsked = (key: string) => asked.some((one) => matchesDestination(key, one))
  row.deployments = row.deployments.filter((one) => isAsked(destinationKey(one) ?? ''))
  for (const offer of row.ext.tributary.offers) offer.deployments = offer.deployments.filter(isAsked)
}

/** The rows of one page as pieces to be written in order, commas included. */
export function createPages(snapshot: Snapshot, shape: Shape) {
  const { criteria, fields, seesPrices, grants } = shape
  const wanted = criteria.destinations && destinationFlags(snapshot, criteria.destinations)
  const { at, destination } = snapshot.deployments
  const { chunkOf, start, length } = snapshot.rows

  function deploysElsewhere(entry: number): boolean {
    if (!wanted) return false
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (!wanted[destination[one] as number]) return true
    }
    return false
  }

  const isAsItStands = (entry: number) =>
    !fields &&
    !grants.holds(entry) &&
    !(criteria.countries && snapshot.facts.mixed[entry]) &&
    !deploysElsewhere(entry)

  function taken(entry: number): Uint8Array {
    const row = rowAt(snapshot, entry) as PublishedRow
    if (grants.holds(entry)) {
      grants.keysOf(entry).forEach((key, order) => {
        const deployment = row.deployments[order]
        if (key && deployment) deployment.activation_key = key
      })
    }
    if (criteria.countries && snapshot.facts.mixed[entry]) narrowed(row, criteria.countries)
    if (criteria.destinations) onlyDestinations(row, criteria.destinations)
    if (fields) withoutUnasked(row, fields)
    if (!seesPrices) delete row.pricing_options
    return encoder.encode(JSON.stringify(row))
  }

  const follows = (entry: number, next: number) =>
    chunkOf[entry] === chunkOf[next] &&
    (start[entry] as number) + (length[entry] as number) + 1 === start[next]

  function rows(entries: Uint32Array): Uint8Array[] {
    const pieces: Uint8Array[] = []
    for (let order = 0; order < entries.length; order += 1) {
      const entry = entries[order] as number
      const isLast = order === entries.length - 1
      if (!isAsItStands(entry)) {
        pieces.push(taken(entry))
        if (!isLast) pieces.push(COMMA)
        continue
      }
      if (!seesPrices) {
        pieces.push(headBytes(snapshot, entry), isLast ? END_OF_HEAD : END_OF_HEAD_AND_NEXT)
        continue
      }
      let last = order
      for (let next = order + 1; next < entries.length; next += 1) {
        const one = entries[next] as number
        if (!follows(entries[last] as number, one) || !isAsItStands(one)) break
        last = next
      }
      const chunk = snapshot.rows.chunks[chunkOf[entry] as number] as Uint8Array
      const end = entries[last] as number
      const comma = last === entries.length - 1 ? 0 : 1
      pieces.push(chunk.subarray(start[entry], (start[end] as number) + (length[end] as number) + comma))
      order = last
    }
    return pieces
  }

  /** PARTIAL_COVERAGE when a signal of the page lacks some asked destination (specification, Rules for destinations 2). */
  function partialCoverage(entries: Uint32Array): AdcpWarning[] {
    const asked = criteria.destinations
    if (!asked || asked.length < 2) return []
    const names = snapshot.deployments.destinations
    const lacking = [...entries].filter((entry) => {
      const deployed = [...destination.subarray(at[entry], at[entry + 1])].map((id) => names[id] as string)
      return !asked.every((one) => deployed.some((key) => matchesDestination(key, one)))
    })
    const [first] = lacking
    if (first === undefined) return []
    return [
      {
        code: 'PARTIAL_COVERAGE',
        severity: 'warning',
        message: `${lacking.length} of ${entries.length} signals on this page are not available on every requested destination.`,
        field: `signals[${entries.indexOf(first)}].deployments`,
        details: { signals: lacking.map((entry) => handleAt(snapshot, entry)) },
      },
    ]
  }

  return { rows, partialCoverage }
}
