/** Run as a child process: builds the world of the test in another order and prints its versions. */
import { createFeed } from '../../src/feed/feed.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { buyer, judgeThat, listing, sliceOf } from './world.js'

/** Versions of a world whose slices and rows come in one order or the other, by way of another world or straight. */
export function versionsOf(turned: boolean): string {
  const rows = Array.from({ length: 50 }, (_, n) => listing(`s${n}`, { coverage_percentage: n }))
  const slices = ['north', 'south', 'west'].map((upstream) =>
    sliceOf(upstream, turned ? [...rows].reverse() : rows),
  )
  const judge = judgeThat()
  const before = turned ? buildSnapshot({ slices: [sliceOf('north', rows.slice(7))], judge }) : undefined
  const feed = createFeed({ cursorSecret: 'shared by replicas', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(
    buildSnapshot({
      ...(before ? { previous: before } : {}),
      slices: turned ? slices.reverse() : slices,
      judge,
    }),
    0,
  )
  const queries = [{}, { filters: { min_coverage_percentage: 20 } }, { countries: ['DE'] }]
  return JSON.stringify(
    queries.map((query) => {
      const page = feed.wholesale({ maxResults: 3, ...query }, buyer, 0)
      if (page.kind !== 'page') throw new Error('a page was expected')
      return [page.feedVersion, page.pricingVersion, page.cursor, Buffer.concat(page.rows).toString()]
    }),
  )
}

if (process.argv[2] === 'print') process.stdout.write(versionsOf(true))
