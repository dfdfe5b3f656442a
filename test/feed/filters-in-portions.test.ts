/** A filter that nobody asked for before looks at every signal: in portions, once, and within one budget of memory. */
import { test } from 'tap'
import { createViewCache } from '../../src/feed/view.js'
import { plainFeed } from '../support/server-feed.js'
import { ask } from './feed-of.js'
import { buyer } from './world.js'

const SIGNALS = 8_400 // more than a portion
const anonymous = { caller: 'anonymous', visibility: 'metadata' as const, grants: [] }

function portions(due: { work: Iterator<unknown> } | undefined): number {
  let count = 0
  while (due && !due.work.next().done) count += 1
  return count
}

test('a filter, destinations and a reader`s keys are worked out in portions, once', (t) => {
  const [prepared, straight] = [plainFeed(SIGNALS), plainFeed(SIGNALS)]
  const destinations = [{ type: 'platform' as const, platform: 'dsp' }]
  const cases = [
    [{ filters: { max_cpm: 2 } }, buyer],
    [{ filters: { data_providers: ['p.example'] } }, anonymous],
    [{ destinations }, anonymous],
    [{}, { ...buyer, grants: destinations }],
  ] as const
  for (const [query, reader] of cases) {
    t.ok(portions(prepared.preparing(query, reader, 0)) >= 2, JSON.stringify(query))
    t.equal(prepared.preparing(query, reader, 0), undefined, 'it is done once')
    const [answer, expected] = [prepared, straight].map((feed) => ask(feed, query, reader))
    t.equal(JSON.stringify(answer), JSON.stringify(expected))
  }
  t.end()
})

test('a walk on an older snapshot is prepared there too', (t) => {
  const feed = plainFeed(SIGNALS)
  const query = { filters: { max_cpm: 2 }, maxResults: 10 }
  const first = feed.wholesale(query, buyer, 0)
  if (first.kind !== 'page' || first.cursor === undefined)
    throw new Error('a page with more behind it was expected')
  feed.publishContent({ listings: [] }, 1)
  const { cursor } = first
  t.equal(
    portions(feed.preparing({ ...query, cursor }, buyer, 2)),
    0,
    'an empty feed and a view that is kept',
  )
  t.end()
})

test('sixty filtered walks side by side keep their views', (t) => {
  const cache = createViewCache()
  const entries = new Uint32Array(200_000)
  const view = () => ({ entries, structure: '', pricing: '' })
  for (let walk = 0; walk < 60; walk += 1) cache.set('snapshot', `filter ${walk}`, view())
  for (let walk = 0; walk < 60; walk += 1) t.ok(cache.get('snapshot', `filter ${walk}`))
  for (let walk = 0; walk < 1_000; walk += 1) cache.set('snapshot', `more ${walk}`, view())
  t.notOk(cache.get('snapshot', 'filter 0'), 'and there is an end to it')
  t.end()
})
