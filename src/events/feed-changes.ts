/**
 * The events that lead from one state of the feed, as a reader is shown it, to another: each with the row that the reader is
 * shown, so that applying them leaves what a walk would give. Beyond a bound one event says that many things changed.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Seen } from '../feed/feed.js'
import { createPages } from '../feed/page.js'
import { handleAt, rowAt } from '../snapshot/snapshot.js'
import type { InPortions } from '../threads/portions.js'
import type { Change, ChangeSet } from './changes.js'
import {
  type AppliesTo,
  bulkEvent,
  type EventIds,
  eventJson,
  type FeedEvent,
  type FeedEventType,
  type FeedTokens,
} from './feed-event.js'

/** A layer of the feed as one reader is shown it. */
export type FeedStanding = Pick<Seen, 'snapshot' | 'entries' | 'grants' | 'criteria'> & { tokens: FeedTokens }

/** "More than 5 % of the feed or 100 entities": fewer than ten are told one by one however small the feed is. */
const MOST_CHANGES = 100
const SHARE = 0.05
const ALWAYS_SINGLE = 10
/** A receiver need not take more than 1 MB. */
const MOST_EVENT_BYTES = 900_000
/** Of one layer, together: what waits for a slow subscriber is stored, and held while it is sent. */
const MOST_BATCH_BYTES = 1_000_000
const PORTION_BYTES = 64 * 1_024

/** How many changes of a feed of that size are told one by one. */
export function mostSingles(signals: number): number {
  return Math.min(MOST_CHANGES, Math.max(ALWAYS_SINGLE, Math.floor(signals * SHARE)))
}

type Row = Record<string, unknown> & {
  pricing_options?: { pricing_option_id: string }[]
  deployments: unknown[]
}
type Payload = { type: FeedEventType; handle: string; payload: Record<string, string> }

function rowText({ snapshot, grants, criteria }: FeedStanding, entry: number): string {
  const pages = createPages(snapshot, { criteria, seesPrices: true, grants })
  return Buffer.concat(pages.rows(Uint32Array.of(entry))).toString()
}

const named = (handle: string, { signal_ref }: Record<string, unknown>) => ({
  signal_agent_segment_id: JSON.stringify(handle),
  ...(signal_ref !== undefined && { signal_ref: JSON.stringify(signal_ref) }),
})

/**
 * What is told of one change; undefined when the reader sees none, and `untellable` for a row that the event's schema
 * cannot hold.
 */
function payloadOf(
  before: FeedStanding,
  after: FeedStanding,
  change: Change,
): Payload | undefined | 'untellable' {
  if (change.kind === 'removed') {
    const handle = handleAt(before.snapshot, change.before)
    return { type: 'signal.removed', handle, payload: named(handle, rowAt(before.snapshot, change.before)) }
  }
  if (change.kind === 'keyed' && after.grants.name === '' && before.grants.name === '') return undefined
  const text = rowText(after, change.after)
  const row = JSON.parse(text) as Row
  const handle = handleAt(after.snapshot, change.after)
  const name = named(handle, row)
  if (row.deployments.length === 0) return 'untellable'
  if (change.kind === 'created') return { type: 'signal.created', handle, payload: { ...name, signal: text } }
  const old = JSON.parse(rowText(before, change.before)) as Row
  const fields = [...new Set([...Object.keys(old), ...Object.keys(row)])]
    .filter((field) => !isDeepStrictEqual(old[field], row[field]))
    .sort()
  if (fields.length === 0) return undefined
  if (fields.join() === 'pricing_options' && row.pricing_options) {
    const options = {
      pricing_options: JSON.stringify(row.pricing_options),
      ...(old.pricing_options && {
        previous_pricing_option_ids: JSON.stringify(old.pricing_options.map((one) => one.pricing_option_id)),
      }),
    }
    return { type: 'signal.priced', handle, payload: { ...name, ...options } }
  }
  return {
    ...{ type: 'signal.updated', handle },
    payload: { ...name, changed_fields: JSON.stringify(fields), signal: text },
  }
}

/** All that the reader sees of the changes; undefined when they are too many, too large or cannot be told one by one. */
function* payloadsOf(
  before: FeedStanding,
  after: FeedStanding,
  { count, changes, isWhole }: ChangeSet,
): InPortions<Payload[] | undefined> {
  if (!isWhole || count > mostSingles(after.entries.length)) return undefined
  const found: Payload[] = []
  let [bytes, portion] = [0, 0]
  for (const change of changes) {
    const one = payloadOf(before, after, change)
    if (one === 'untellable') return undefined
    if (!one) continue
    found.push(one)
    const size = Object.values(one.payload).reduce((sum, json) => sum + Buffer.byteLength(json), 0)
    bytes += size
    portion += size
    if (size > MOST_EVENT_BYTES || bytes > MOST_BATCH_BYTES) return undefined
    if (portion < PORTION_BYTES) continue
    portion = 0
    yield
  }
  return found.length > MOST_CHANGES ? undefined : found
}

/**
 * The events in their order. Between two of them is a token that no read gives, so that a receiver that missed one notices it at
 * the next; the last one leads to the token that the next read gives. `at` in ms.
 */
export function* eventsBetween(
  before: FeedStanding,
  after: FeedStanding,
  changes: ChangeSet,
  { appliesTo, newId, at }: { appliesTo: AppliesTo; newId: EventIds; at: number },
): InPortions<FeedEvent[]> {
  const payloads = yield* payloadsOf(before, after, changes)
  const [from, to] = [before.tokens, after.tokens]
  if (!payloads || payloads.length === 0) {
    const count = changes.count
    return [bulkEvent({ id: newId(), at, appliesTo }, { previous: from, version: to, count })]
  }
  let previous = from
  return payloads.map(({ type, handle, payload }, order): FeedEvent => {
    const id = newId()
    const version = order === payloads.length - 1 ? to : { feed: `${id}.feed`, pricing: `${id}.pricing` }
    const json = eventJson({ id, type, entity: handle, at, payload, appliesTo })
    const event = { id, type, scope: appliesTo.scope, json, previous, version }
    previous = version
    return event
  })
}
