/**
 * What happened between two states of the feed: signals created, updated, priced, removed (docs/house.md), and the events that tell
 * it to a reader (schema core/wholesale-feed-event), each with the row that the reader is shown, so that applying them leaves what
 * a walk would give. Hash trees tell in which buckets anything differs, so that a change among a million signals costs a look at a
 * thousand. Beyond a bound one event says that many things changed.
 */
import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { BULK_EVENT, type FeedEventType } from '../adcp/signal.js'
import type { Seen } from '../feed/feed.js'
import { createPages } from '../feed/page.js'
import { compareKeys, WORDS } from '../merge/keys.js'
import { createMeter, type InPortions } from '../process/portions.js'
import { bucketEntries, differingBuckets } from '../snapshot/digests.js'
import { handleAt, rowAt, type Snapshot } from '../snapshot/snapshot.js'

/** "More than 5 % of the feed or 100 entities": fewer than ten are told one by one however small the feed is. */
const MOST_CHANGES = 100
const SHARE = 0.05
const ALWAYS_SINGLE = 10
/** A receiver need not take more than 1 MB. */
const MOST_EVENT_BYTES = 900_000
/** Of one layer, together: what waits for a slow subscriber is stored, and held while it is sent. */
const MOST_BATCH_BYTES = 1_000_000
const PORTION_BYTES = 64 * 1_024
/** The cost of comparing a signal with what it was, in signals looked at: two rows of several columns, far from each other. */
const COMPARED_UNITS = 3
const COUNTER_BITS = 12 // of an event's id

/** `before` and `after` are entries of the two snapshots. */
export type Change =
  | { readonly kind: 'created'; readonly after: number }
  /** Structure moved, prices perhaps too. */
  | { readonly kind: 'updated'; readonly before: number; readonly after: number }
  /** Nothing but prices moved. */
  | { readonly kind: 'priced'; readonly before: number; readonly after: number }
  | { readonly kind: 'removed'; readonly before: number }
  /** Only activation keys changed: a reader who may see none of them is sent nothing. */
  | { readonly kind: 'keyed'; readonly before: number; readonly after: number }

export type ChangeSet = {
  /** Signals of which anything but keys moved. */
  readonly count: number
  /** In key order; the first of them where there are more than were asked for. */
  readonly changes: readonly Change[]
  /** Whether `changes` are all. */
  readonly isWhole: boolean
}

function sameWords(a: Uint32Array, i: number, b: Uint32Array, j: number, width: number): boolean {
  for (let word = 0; word < width; word += 1) if (a[i * width + word] !== b[j * width + word]) return false
  return true
}

/** Of two rows whose structure is the same, so that their deployments stand in one order. */
function sameActivationKeys(before: Snapshot, i: number, after: Snapshot, j: number): boolean {
  const from = before.deployments.at[i] as number
  const count = (before.deployments.at[i + 1] as number) - from
  const to = after.deployments.at[j] as number
  for (let one = 0; one < count; one += 1) {
    if (!sameWords(before.deployments.key, from + one, after.deployments.key, to + one, 2)) return false
  }
  return true
}

function changeOf(before: Snapshot, i: number, after: Snapshot, j: number): Change | undefined {
  const kind = !sameWords(before.digests.structure, i, after.digests.structure, j, WORDS)
    ? 'updated'
    : !sameWords(before.digests.pricing, i, after.digests.pricing, j, WORDS)
      ? 'priced'
      : !sameActivationKeys(before, i, after, j)
        ? 'keyed'
        : undefined
  return kind && { kind, before: i, after: j }
}

const isShown = ({ rows }: Snapshot, entry: number) => rows.length[entry] !== 0

/** All changes are counted, and the first `most` given: in each bucket, one walk over two sorted runs of entries. */
export function* changesBetween(before: Snapshot, after: Snapshot, most: number): InPortions<ChangeSet> {
  const meter = createMeter()
  const changes: Change[] = []
  let [count, left] = [0, 0]
  if (before.id === after.id) return { count, changes, isWhole: true }
  const buckets = differingBuckets(before.tree, after.tree)
  yield // to find them takes a portion
  for (const bucket of buckets) {
    let [i, endOfBefore] = bucketEntries(before, bucket)
    let [j, endOfAfter] = bucketEntries(after, bucket)
    while (i < endOfBefore || j < endOfAfter) {
      meter.did(COMPARED_UNITS)
      if (meter.isDue()) yield // whoever names signals chooses how many of them fall into one bucket
      if (i < endOfBefore && !isShown(before, i)) i += 1
      else if (j < endOfAfter && !isShown(after, j)) j += 1
      else {
        const side =
          i === endOfBefore ? 1 : j === endOfAfter ? -1 : compareKeys(before.keys, i, after.keys, j)
        const change: Change | undefined =
          side < 0
            ? { kind: 'removed', before: i }
            : side > 0
              ? { kind: 'created', after: j }
              : changeOf(before, i, after, j)
        if (side <= 0) i += 1
        if (side >= 0) j += 1
        if (!change) continue
        if (change.kind !== 'keyed') count += 1
        if (changes.length < most) changes.push(change)
        else left += 1
      }
    }
  }
  return { count, changes, isWhole: left === 0 }
}

/** A layer of the feed as one reader is shown it. */
export type FeedStanding = Pick<Seen, 'snapshot' | 'entries' | 'grants' | 'criteria'> & { tokens: FeedTokens }

/** How many changes of a feed of that size are told one by one. */
export function mostSingles(signals: number): number {
  return Math.min(MOST_CHANGES, Math.max(ALWAYS_SINGLE, Math.floor(signals * SHARE)))
}

/**
 * Ids of feed events: UUIDs of version 7 (RFC 9562, section 5.7), each above every earlier one of this process, and above
 * those of another one that it follows, so that a receiver can put events in order by their ids (schema
 * core/wholesale-feed-event). `now` in ms.
 */
export function createEventIds(now: () => number) {
  let last = 0 // milliseconds and counter as one number, which is exact until the year 2039

  function next(): string {
    last = Math.max(last + 1, now() * 2 ** COUNTER_BITS)
    const time = Math.floor(last / 2 ** COUNTER_BITS)
      .toString(16)
      .padStart(12, '0')
    const counter = (last % 2 ** COUNTER_BITS).toString(16).padStart(3, '0')
    const random = randomBytes(8)
    random[0] = ((random[0] as number) & 0x3f) | 0x80
    const tail = random.toString('hex')
    return `${time.slice(0, 8)}-${time.slice(8)}-7${counter}-${tail.slice(0, 4)}-${tail.slice(4)}`
  }

  return {
    next,
    /** Ids from now on are above this one, whatever the clock that it was made by. */
    follow(id: string): void {
      const [high = '', low = '', counter = ''] = id.split('-')
      const told = Number.parseInt(high + low + counter.slice(1), 16)
      if (told > last) last = told
    },
  }
}

type EventIds = ReturnType<typeof createEventIds>['next']

/** What a wholesale read answers with for one layer. */
export type FeedTokens = { feed: string; pricing: string }

type Scope = 'public' | 'account'

export type AppliesTo = { scope: 'public' } | { scope: 'account'; account_ids: readonly string[] }

/** An event with the tokens of its layer before and after it. */
export type FeedEvent = {
  id: string
  type: FeedEventType
  scope: Scope
  /** JSON of the event. */
  json: string
  previous: FeedTokens
  version: FeedTokens
}

type EventParts = {
  id: string
  type: FeedEventType
  /** The segment's handle, or the id of the operation that changed many. */
  entity: string
  /** ms since the epoch. */
  at: number
  /** Members of the payload except `applies_to`; values are JSON. */
  payload: Readonly<Record<string, string>>
  appliesTo: AppliesTo
}

/** The event's own JSON. Rows are put in as the bytes that a page shows. */
function eventJson({ id, type, entity, at, payload, appliesTo }: EventParts): string {
  const members = Object.entries({ ...payload, applies_to: JSON.stringify(appliesTo) })
  const inner = members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')
  const head = JSON.stringify({
    event_id: id,
    event_type: type,
    entity_type: type === BULK_EVENT ? 'feed' : 'signal',
    entity_id: entity,
    created_at: new Date(at).toISOString(),
  })
  return `${head.slice(0, -1)},"payload":{${inner}}}`
}

/** "Many things changed: read again", in one event. */
export function bulkEvent(
  { id, at, appliesTo }: Pick<EventParts, 'id' | 'at' | 'appliesTo'>,
  { previous, version, count }: Pick<FeedEvent, 'previous' | 'version'> & { count: number },
): FeedEvent {
  const payload = {
    summary: '"The feed changed in many places, or in ways that are not known one by one."',
    affected_entity_type: '"signal"',
    affected_count: String(Math.max(1, count)),
    recommendation: '"wholesale_resync"',
  }
  const json = eventJson({ id, type: BULK_EVENT, entity: id, at, payload, appliesTo })
  return { id, type: BULK_EVENT, scope: appliesTo.scope, json, previous, version }
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
