/** A running Tributary that moves on when the test says so, a gate before it, and mirrors of it. */
import type { Test } from 'tap'
import { type FeedMirrorOptions, openFeedMirror } from '../../../src/mirror/mirror.js'
import { feedOf, listing } from '../../support/server-feed.js'
import { BUYER_TOKEN, startServer } from '../../support/server-fixture.js'
import type { Place } from './copies.js'
import { startGate } from './gate.js'

type Row = Record<string, unknown>

export const content = (from: number, to: number, cpm = 1.5) => ({
  listings: Array.from({ length: to - from }, (_, n) => listing(`s${from + n}`, cpm)),
})

export async function startFeed(t: Test, overlays: Record<string, ReturnType<typeof listing>[]> = {}) {
  const feed = feedOf({ ...content(0, 250), overlays })
  const server = await startServer(t, { feed })
  const gate = await startGate(t, server.url)

  /** What a walk gives now, in the order in which the copy is read. */
  async function feedNow(input: Row = {}): Promise<Row[]> {
    const rows: Row[] = []
    let cursor: string | undefined
    do {
      const pagination = { max_results: 100, ...(cursor && { cursor }) }
      const page = await server.call('get_signals', { discovery_mode: 'wholesale', ...input, pagination })
      rows.push(...page.signals)
      cursor = page.pagination.cursor
    } while (cursor)
    return rows.sort((a, b) =>
      String(a.signal_agent_segment_id) < String(b.signal_agent_segment_id) ? -1 : 1,
    )
  }

  async function mirrorAt(place: Place, more: Partial<FeedMirrorOptions> = {}) {
    const { out, format } = place
    const mirror = await openFeedMirror({ url: gate.url, token: BUYER_TOKEN, out, format, ...more })
    t.teardown(mirror.close)
    return mirror
  }

  return { feed, gate, feedNow, mirrorAt }
}
