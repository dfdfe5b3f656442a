/** A feed of numbered signals: equal numbers make an equal feed, with equal versions, in whichever process. */
import type { Eyes } from '../../../src/events/standings.js'
import type { Feed } from '../../../src/feed/feed.js'
import { emptyFeed, publish as publishTo } from '../../feed/feed-of.js'
import { pageOf, rowsOf, walk } from '../../feed/reader.js'
import { listing, sliceOf } from '../../feed/world.js'
import { createMirror } from './mirror.js'

export const eyes: Eyes = { open: { caller: 'buyer', visibility: 'full', grants: [] }, account: 'acc' }

export function publishNumbers() {
  const feed = emptyFeed()
  return {
    feed,
    publish(numbers: readonly number[]): void {
      publishTo(feed, [
        sliceOf(
          'north',
          numbers.map((number) => listing(`s${number}`)),
        ),
      ])
    },
  }
}

/** A mirror that reads everything of such a feed at once when it has to. */
export const mirrorOf = (feed: Feed) =>
  createMirror((scope) => {
    if (scope === 'account') return undefined
    const [page] = walk(feed, { maxResults: 100 }, eyes.open)
    const { feedVersion, pricingVersion = '' } = pageOf(page as never)
    const rows = new Map(rowsOf(page as never).map((row) => [row.signal_agent_segment_id, row]))
    return { rows, feed: feedVersion, pricing: pricingVersion }
  })
