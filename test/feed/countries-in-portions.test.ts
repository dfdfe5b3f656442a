import { test } from 'tap'
import { ask, emptyFeed, publish } from './feed-of.js'
import { buyer, judgeThat, listing, sliceOf } from './world.js'

const SIGNALS = 300
const rows = Array.from({ length: SIGNALS }, (_, n) => listing(`s${n}`))

/** Two agents with the very same rows; one may sell them in the US, the other in Germany. */
function twoSellers(rowsOf = (_upstream: string) => rows) {
  const feed = emptyFeed()
  const judge = judgeThat({
    decide: (_, agentUrl) => ({
      outcome: 'authorized',
      entries: [0],
      countries: [agentUrl.includes('alpha') ? 'US' : 'DE'],
    }),
  })
  publish(
    feed,
    ['alpha', 'beta'].map((upstream) => sliceOf(upstream, rowsOf(upstream))),
    { judge },
  )
  return feed
}

function portions(due: { work: Iterator<unknown> } | undefined): number {
  let count = 0
  while (due && !due.work.next().done) count += 1
  return count
}

test('rows that countries narrow are merged in portions, and what follows is the same answer', (t) => {
  const [prepared, straight] = [twoSellers(), twoSellers()]
  for (const [country, upstream] of [
    ['US', 'alpha'],
    ['DE', 'beta'],
  ] as const) {
    const countries = [country]
    t.ok(portions(prepared.preparing({ countries }, buyer, 0)) >= SIGNALS / 64)
    t.equal(portions(prepared.preparing({ countries }, buyer, 0)), 0, 'it is done once')
    const answer = ask(prepared, { countries })
    t.same(answer, ask(straight, { countries }))
    const sellers = answer.signals.flatMap(({ ext }) => ext.tributary.offers.map((offer) => offer.upstream))
    t.same(new Set(sellers), new Set([upstream]))
  }
  t.end()
})

test('a row that lists much is a portion of its own, and few of them make a page', (t) => {
  const long = (upstream: string) =>
    Array.from({ length: 12 }, (_, n) =>
      listing(`s${n}`, {
        deployments: Array.from({ length: 2_000 }, (_, at) => ({
          ...{ type: 'platform' as const, platform: `${upstream} ${at}`, is_live: false },
        })),
      }),
    )
  const feed = twoSellers(long)
  t.ok(portions(feed.preparing({ countries: ['US'] }, buyer, 0)) >= 12)
  const whole = ask(feed, {})
  t.ok(whole.signals.length > 4, 'as they stand')
  const page = ask(feed, { countries: ['US'] })
  t.equal(page.signals.length, 1, 'merged again')
  t.equal(page.signals[0]?.deployments.length, 2_000)
  t.ok(page.cursor)
  t.end()
})

test('where nothing is narrowed there is nothing to prepare', (t) => {
  const feed = twoSellers()
  t.equal(feed.preparing({}, buyer, 0), undefined)
  t.equal(portions(feed.preparing({ countries: ['DE', 'US'] }, buyer, 0)), 0)
  const [row] = ask(feed, { countries: ['DE', 'US'] }).signals
  t.same(row, ask(feed, {}).signals[0], 'it is shown as it stands')
  t.end()
})
