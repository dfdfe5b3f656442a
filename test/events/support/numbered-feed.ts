/** A feed of numbered signals: equal numbers make an equal feed, with equal versions, in whichever process. */
import type { Eyes } from '../../../src/events/standings.js'
import { emptyFeed, publish as publishTo } from '../../feed/feed-of.js'
import { listing, sliceOf } from '../../feed/world.js'

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
