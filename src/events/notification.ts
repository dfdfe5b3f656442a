/** What one receiver is sent of an event, as it goes out and as it is kept until then. */
import { randomUUID } from 'node:crypto'
import type { FeedEvent } from './changes.js'
import type { Pending } from './stream.js'

/**
 * The webhook for one receiver (schema core/wholesale-feed-webhook), under a new idempotency key, which stays the same however
 * often it is sent; the event in it is the same for everybody who sees the feed alike. It is encrypted while it is kept when
 * activation keys are in it. `at`: when it is made, ms since the epoch.
 */
export function notificationOf(
  event: FeedEvent,
  to: { subscriber: string; account: string },
  at: number,
): Pending {
  const key = `whk_${randomUUID()}`
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
  const body = `${envelope.slice(0, -1)},"event":${json}}`
  return body.includes('"activation_key"') ? { key, type, sealed: body } : { key, type, body }
}
