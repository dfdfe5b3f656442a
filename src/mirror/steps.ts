/**
 * What an agent notifies of its feed (schema core/wholesale-feed-webhook), as steps from one version of it to the next, and what they
 * do to the rows of a copy.
 */
import { isRecord } from '../adcp/json.js'
import type { CopyState, RowChange, RowChanges } from './copy.js'
import { textIn } from './walk.js'

type Tokens = Pick<CopyState, 'version' | 'pricing'>

export type Step = {
  /** `cache_scope`: which layer of the feed it is about. */
  scope: string
  from: Tokens
  to: Tokens
  /** Absent where the rows have to be read: many changed, or the kind of change is not known here. */
  row?: { id: string; change: RowChange }
}

/** The protocol's body has no member for a version of prices; Tributary's `ext` has (docs/protocol.md#feed-webhooks). */
function pricingIn(event: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const ext = isRecord(event.ext) && isRecord(event.ext.tributary) ? event.ext.tributary : {}
  return textIn(ext[name])
}

function tokens(version: unknown, pricing: string | undefined): Tokens {
  const structure = textIn(version)
  return { ...(structure && { version: structure }), ...(pricing && { pricing }) }
}

function rowOf(type: unknown, payload: Readonly<Record<string, unknown>>): Step['row'] {
  const id = textIn(payload.signal_agent_segment_id)
  if (id === undefined) return undefined
  if (type === 'signal.removed') return { id, change: { kind: 'remove' } }
  if (type === 'signal.created' || type === 'signal.updated') {
    const { signal: row } = payload
    const isIts = isRecord(row) && row.signal_agent_segment_id === id
    return isIts ? { id, change: { kind: 'put', row } } : undefined
  }
  const { pricing_options, effective_at } = payload
  // Prices that apply from some time on are read once they do.
  if (type !== 'signal.priced' || !Array.isArray(pricing_options) || effective_at !== undefined)
    return undefined
  return { id, change: { kind: 'set', members: { pricing_options } } }
}

/** An event with a valid signature, as a step. One of an unknown kind means only that something changed. */
export function stepOf(told: Readonly<Record<string, unknown>>): Step {
  const event = isRecord(told.event) ? told.event : {}
  const row = rowOf(event.event_type, isRecord(event.payload) ? event.payload : {})
  return {
    scope: textIn(told.cache_scope) ?? 'public',
    from: tokens(told.previous_wholesale_feed_version, pricingIn(told, 'previous_pricing_version')),
    to: tokens(told.wholesale_feed_version, pricingIn(told, 'pricing_version')),
    ...(row && { row }),
  }
}

const nameOf = ({ version, pricing }: Tokens) => JSON.stringify([version, pricing])

/** The steps that lead on from what is held, in their order, whatever the order is in which they came. */
export function pathFrom(held: CopyState, steps: readonly Step[]): readonly Step[] {
  const { scope = 'public' } = held
  const next = new Map(steps.filter((step) => step.scope === scope).map((step) => [nameOf(step.from), step]))
  const path: Step[] = []
  for (let at = nameOf(held); ; ) {
    const step = next.get(at)
    if (!step) return path
    next.delete(at) // versions may come back: no step is taken twice
    path.push(step)
    at = nameOf(step.to)
  }
}

/** What all steps together do to the rows; undefined when one of them says that rows have to be read. */
export function changesOf(steps: readonly Step[]): RowChanges | undefined {
  const changes = new Map<string, RowChange>()
  for (const { row } of steps) {
    if (!row) return undefined
    const { id, change } = row
    const before = changes.get(id)
    if (change.kind !== 'set' || !before) changes.set(id, change)
    else if (before.kind === 'put')
      changes.set(id, { kind: 'put', row: { ...before.row, ...change.members } })
    else if (before.kind === 'set')
      changes.set(id, { kind: 'set', members: { ...before.members, ...change.members } })
    else return undefined // of a row that was removed
  }
  return changes
}
