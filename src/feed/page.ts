/**
 * A page made of bytes. A row that is shown unchanged is never parsed, and consecutive rows are sent as one piece. A
 * row is rewritten only when this reader's answer differs from the shared bytes: destinations left out, fields not
 * asked for, offers that cannot serve the countries, keys that the reader may see.
 */
import { howMany } from '../adcp/answer.js'
import type { AdcpWarning } from '../adcp/error.js'
import type { ActivationKey, Destination } from '../adcp/signal.js'
import { destinationKey, destinationMatcher, mergeDeployments } from '../merge/deployments.js'
import type { Provenance } from '../merge/offer.js'
import { published } from '../merge/published.js'
import type { Row } from '../merge/row.js'
import { handleAt, headBytes, rowAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import type { Grants } from './grants.js'
import { createNarrowing } from './narrowing.js'
import { destinationTest } from './view.js'

type PublishedRow = {
  signal_agent_segment_id: string
  deployments: (Destination & { activation_key?: ActivationKey })[]
  pricing_options?: { pricing_option_id: string }[]
  ext: { tributary: { offers: Provenance[] } }
} & Record<string, unknown>

type Shape = {
  criteria: Criteria
  fields?: readonly string[]
  seesPrices: boolean
  grants: Grants
}

const encoder = new TextEncoder()
const COMMA = encoder.encode(',')
const END_OF_HEAD = encoder.encode('}')
const END_OF_HEAD_AND_NEXT = encoder.encode('},')
/** Bytes of rows on one page: a single row may be as large as an upstream is allowed to send. */
export const PAGE_BYTES = 2 * 1024 * 1024
const TAKEN_APART = 8 // the cost of a byte in a rewritten row (parsed, merged, written), compared with an unchanged one
const PROJECTED = new Set(Object.keys(published))

/** `fields` chooses among the optional descriptive fields; identifiers, activation and prices are always included. */
function withoutUnasked(row: PublishedRow, fields: readonly string[]): void {
  for (const name of Object.keys(row)) {
    if (PROJECTED.has(name) && !fields.includes(name)) delete row[name]
  }
}

function onlyDestinations(row: PublishedRow, asked: readonly string[]): void {
  const isAsked = destinationMatcher(asked)
  row.deployments = row.deployments.filter((one) => isAsked(destinationKey(one) ?? ''))
  for (const offer of row.ext.tributary.offers) offer.deployments = offer.deployments.filter(isAsked)
}

/** Whether rows are so small that they fit one page in any case. */
export function isSmallPage({ rows: { length } }: Snapshot, entries: Uint32Array): boolean {
  return entries.reduce((bytes, entry) => bytes + (length[entry] as number), 0) * TAKEN_APART <= PAGE_BYTES
}

/** The rows of one page as pieces to be written in order, commas included. */
export function createPages(snapshot: Snapshot, shape: Shape) {
  const { criteria, fields, seesPrices, grants } = shape
  const isWanted = criteria.destinations && destinationTest(snapshot, criteria.destinations)
  const narrowing = createNarrowing(snapshot, criteria.countries)
  const { facts } = snapshot
  const { at, destination } = snapshot.deployments
  const { chunkOf, start, length } = snapshot.rows

  function deploysElsewhere(entry: number): boolean {
    if (!isWanted) return false
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (!isWanted(destination[one] as number)) return true
    }
    return false
  }

  const isAsItStands = (entry: number) =>
    !fields && !grants.holds(entry) && !narrowing.narrows(entry) && !deploysElsewhere(entry)

  /** Inserts the keys that the reader may see into a copy of the row. */
  function unlocked(row: PublishedRow, entry: number, narrowed: Row | undefined): void {
    if (!narrowed && !grants.holds(entry)) return
    const { deployments } = narrowed ?? mergeDeployments(standingListings(snapshot, entry))
    grants.keysOf(deployments).forEach((key, order) => {
      const deployment = row.deployments[order]
      if (key && deployment) deployment.activation_key = key
    })
  }

  function taken(entry: number): Uint8Array {
    const narrowed = narrowing.rowOf(entry)
    const row = (
      narrowed ? JSON.parse(`${narrowed.head}${narrowed.tail}}`) : rowAt(snapshot, entry)
    ) as PublishedRow
    unlocked(row, entry, narrowed)
    if (criteria.destinations) onlyDestinations(row, criteria.destinations)
    if (fields) withoutUnasked(row, fields)
    if (!seesPrices) delete row.pricing_options
    return encoder.encode(JSON.stringify(row))
  }

  /** How many of these rows make a page: as many as `PAGE_BYTES` allows, and at least one. */
  function pageful(entries: Uint32Array): number {
    let bytes = 0
    const end = entries.findIndex((entry) => {
      bytes += (length[entry] as number) * (isAsItStands(entry) ? 1 : TAKEN_APART)
      return bytes > PAGE_BYTES
    })
    return end < 0 ? entries.length : Math.max(1, end)
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

  function targetsOf(entry: number): string[] {
    const narrowed = narrowing.factsOf(entry)
    if (narrowed) return narrowed.deployments.map(({ key }) => key)
    const names = snapshot.deployments.destinations
    return [...destination.subarray(at[entry], at[entry + 1])].map((id) => names[id] as string)
  }

  /**
   * PARTIAL_COVERAGE when a signal of the page lacks a requested destination, or does not list it (specification, Rules
   * for destinations 2).
   */
  function partialCoverage(entries: Uint32Array): AdcpWarning[] {
    const asked = criteria.destinations
    if (!asked) return []
    const lacking = [...entries].filter(
      (entry) => !asked.every(destinationMatcher(targetsOf(entry))), // matching is symmetric
    )
    const untold = lacking.filter(
      (entry) => narrowing.factsOf(entry)?.anywhere ?? facts.anywhere[entry] === 1,
    )
    const warning = (found: readonly number[], what: string): AdcpWarning[] => {
      const [first] = found
      if (first === undefined) return []
      return [
        {
          code: 'PARTIAL_COVERAGE',
          severity: 'warning',
          message: `${what}: ${found.length} of ${howMany(entries.length, 'signal')} on this page.`,
          field: `signals[${entries.indexOf(first)}].deployments`,
          details: { signals: found.map((entry) => handleAt(snapshot, entry)) },
        },
      ]
    }
    return [
      ...warning(
        lacking.filter((entry) => !untold.includes(entry)),
        'Not available on every requested destination',
      ),
      ...warning(
        untold,
        'From agents that list no destinations (ext.tributary.offers[].destinations_not_listed), so that use on the ' +
          'requested ones is not promised, and activate_signal learns it',
      ),
    ]
  }

  return { pageful, rows, partialCoverage }
}
