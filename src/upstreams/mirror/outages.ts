/**
 * What an agent says it could not finish (specification, "IncompleteEntry"): rows that are missing make a walk useless,
 * a part that is missing from all rows (prices, coverage) is an outage of that part alone.
 */
import { UNIT_MS } from '../../adcp/duration.js'
import { isRecord } from '../../adcp/json.js'
import { type CallFailure, callFailed, type Payload } from '../agent/agent.js'
import { PARTS, type Part } from '../rows/slice.js'

function waitOf(duration: unknown): number | undefined {
  if (!isRecord(duration)) return undefined
  const unit = UNIT_MS[duration.unit as keyof typeof UNIT_MS] ?? Number.NaN
  const ms = Number(duration.interval) * unit
  return Number.isFinite(ms) && ms > 0 ? ms : undefined
}

function entriesOf({ incomplete }: Payload): Record<string, unknown>[] {
  return Array.isArray(incomplete) ? incomplete.filter(isRecord) : []
}

/** A page that lacks rows, as the failure of its walk. */
export function missingRows(payload: Payload): CallFailure | undefined {
  const entry = entriesOf(payload).find(({ scope }) => scope === 'wholesale_feed' || scope === 'signals')
  if (!entry) return undefined
  return callFailed(
    'incomplete_feed',
    'the agent could not enumerate everything',
    waitOf(entry.estimated_wait),
  )
}

/** The parts that the rows of a page lack. */
export function partsOut(payload: Payload): Part[] {
  const scopes = entriesOf(payload).map(({ scope }) => scope)
  return PARTS.filter((part) => scopes.includes(part))
}
