/** A feed that serves one world, for tests that read. */
import type { Judge } from '../../src/authz/rules/verdict.js'
import { createFeed, type Feed } from '../../src/feed/feed.js'
import type { Reader, Selection } from '../../src/feed/query.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Listing, Slice } from '../../src/upstreams/rows/slice.js'
import { pageOf, type Row, rowsOf } from './reader.js'
import { buyer, judgeThat, sliceOf } from './world.js'

export const emptyFeed = (retain = { ms: 60_000, bytes: 2 ** 30 }) =>
  createFeed({ cursorSecret: 'the secret of the tests', retain })

export function publish(
  feed: Feed,
  slices: readonly Slice[],
  { account, now = 0, judge = judgeThat() }: { account?: string; now?: number; judge?: Judge } = {},
) {
  const previous = feed.current()
  const snapshot = buildSnapshot({ ...(previous ? { previous } : {}), slices, judge })
  const own = { snapshot, gaps: [] }
  if (account !== undefined && previous) feed.publish(previous, now, { accounts: new Map([[account, own]]) })
  else feed.publish(snapshot, now)
  return snapshot
}

export function feedOf(listings: readonly Listing[]): Feed {
  const feed = emptyFeed()
  publish(feed, [sliceOf('north', listings)])
  return feed
}

export function ask(feed: Feed, query: Selection, reader: Reader = buyer) {
  const page = pageOf(feed.wholesale({ maxResults: 100, ...query }, reader, 0))
  return { ...page, signals: rowsOf(page) }
}

export const ids = (rows: readonly Row[]) => rows.map(({ signal_ref }) => signal_ref.signal_id).sort()
