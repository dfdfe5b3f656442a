/** A cache that follows the page about events to the letter: it applies what follows on what it holds, and else reads again. */
import type { Body } from './subscriber.js'

type Row = Record<string, unknown>
export type Read = { rows: ReadonlyMap<string, Row>; feed: string; pricing: string }
type Layer = { rows: Map<string, Row>; feed: string; pricing: string }

/** `read`: a whole walk of a layer now. */
export function createMirror(read: (scope: 'public' | 'account') => Read | undefined) {
  const layers = new Map<string, Layer>()
  const seen = new Set<string>()
  let lastId = ''
  let reads = 0

  function reread(scope: 'public' | 'account'): void {
    reads += 1
    const now = read(scope)
    if (now) layers.set(scope, { rows: new Map(now.rows), feed: now.feed, pricing: now.pricing })
    else layers.delete(scope)
  }

  function apply({ rows }: Layer, { event: { event_type: type, payload } }: Body): void {
    const id = payload.signal_agent_segment_id as string
    if (type === 'signal.removed') rows.delete(id)
    else rows.set(id, payload.signal ?? { ...rows.get(id), pricing_options: payload.pricing_options })
  }

  function take(body: Body): void {
    if (seen.has(body.idempotency_key)) return
    seen.add(body.idempotency_key)
    const layer = layers.get(body.cache_scope)
    const { pricing_version: pricing, previous_pricing_version: before } = body.ext.tributary
    const follows =
      layer?.feed === body.previous_wholesale_feed_version &&
      layer?.pricing === before &&
      body.notification_id > lastId
    if (body.notification_id > lastId) lastId = body.notification_id
    if (!layer || !follows || body.event.event_type === 'wholesale_feed.bulk_change') {
      reread(body.cache_scope)
      return
    }
    apply(layer, body)
    layer.feed = body.wholesale_feed_version
    layer.pricing = pricing
  }

  return { take, reread, layers: layers as ReadonlyMap<string, Layer>, reads: () => reads }
}
