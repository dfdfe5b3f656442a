/**
 * One change of the feed as a webhook tells it (schemas core/wholesale-feed-event, core/wholesale-feed-webhook). The event is
 * the same for everybody who sees the feed alike; the envelope around it is one receiver's.
 */
import { randomBytes } from 'node:crypto'

/**
 * Ids of feed events: UUIDs of version 7 (RFC 9562, section 5.7), each above every earlier one of this process, so that a
 * receiver can put events in order by their ids (schema core/wholesale-feed-event).
 */
const COUNTER_BITS = 12

/** `now` in ms. */
export function createEventIds(now: () => number) {
  let last = 0 // milliseconds and counter as one number, which is exact until the year 2039
  return (): string => {
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
}

export type EventIds = ReturnType<typeof createEventIds>

const SIGNAL_EVENTS = ['signal.created', 'signal.updated', 'signal.priced', 'signal.removed'] as const
export const BULK_EVENT = 'wholesale_feed.bulk_change'
/** What this agent tells (docs/events.md). */
export const FEED_EVENTS = [...SIGNAL_EVENTS, BULK_EVENT] as const
export type FeedEventType = (typeof FEED_EVENTS)[number]

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
export function eventJson({ id, type, entity, at, payload, appliesTo }: EventParts): string {
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

/** What is sent to one receiver. Its key is the same however often it is sent. */
export type Told = { key: string; type: FeedEventType; body: string }

/** The webhook for one receiver, under a new idempotency key. `at`: when the notification is made, ms since the epoch. */
export function told(event: FeedEvent, to: { subscriber: string; account: string }, at: number): Told {
  const key = `whk_${randomBytes(24).toString('base64url')}`
  const { id, type, scope, json, previous, version } = event
  const envelope = JSON.stringify({
    idempotency_key: key,
    notification_id: id,
    notification_type: type,
    fired_at: new Date(at).toISOString(),
    subscriber_id: to.subscriber,
    account_id: to.account,
    wholesale_feed_version: version.feed,
    previous_wholesale_feed_version: previous.feed,
    cache_scope: scope,
    ext: { tributary: { pricing_version: version.pricing, previous_pricing_version: previous.pricing } },
  })
  return { key, type, body: `${envelope.slice(0, -1)},"event":${json}}` }
}
