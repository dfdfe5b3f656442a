import { type Test, test } from 'tap'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { emptyFeed } from '../feed/feed-of.js'
import { buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const EARLY = ['s1', 's3'].map((id) => listing(id, {}, 'early.example'))
const LATE = listing('s2', {}, 'late.example')

/** The signals of two providers in a chunk each: those of the second were merged later. */
function inTwoChunks(): Snapshot {
  const before = [sliceOf('north', EARLY)]
  const previous = buildSnapshot({ slices: before, judge: judgeThat() })
  return buildSnapshot({
    ...{ previous, judge: judgeThat() },
    slices: [...before, sliceOf('south', [LATE])],
  })
}

/** A server that shows what was served last, while its rows are still read. */
async function resumed(t: Test) {
  const whole = inTwoChunks()
  t.equal(whole.rows.chunks.length, 2)
  const chunks = whole.rows.chunks.map(({ byteLength }) => new Uint8Array(new SharedArrayBuffer(byteLength)))
  const settle: ((isWhole: boolean) => void)[] = []
  const hastened: number[] = []
  const parts = chunks.map((_, chunk) => ({
    isWhole: new Promise<boolean>((resolve) => void settle.push(resolve)),
    hasten: () => void hastened.push(chunk),
  }))
  const feed = emptyFeed()
  feed.resume({ ...whole, rows: { ...whole.rows, chunks } }, 0, [], parts)
  let waiting = 0
  const reading: typeof feed.reading = (...asked) => {
    const rows = feed.reading(...asked)
    if (rows) waiting += 1
    return rows
  }
  const { call, send } = await startServer(t, { feed: { ...feed, reading }, now: () => 0 })
  const answered: string[] = []
  const page = async (domain?: string, more: object = {}) => {
    const filters = domain === undefined ? {} : { filters: { data_providers: [domain] } }
    const answer = await call('get_signals', { discovery_mode: 'wholesale', ...filters, ...more })
    answered.push(domain ?? 'all')
    return answer
  }
  return {
    ...{ whole, feed, page, answered, hastened },
    /** Resolves when so many pages wait for rows. */
    waited: (pages: number) =>
      until(
        async () => waiting,
        (count) => count === pages,
      ),
    status: async () => (await send('/readyz', {})).status,
    comes(chunk: number): void {
      chunks[chunk]?.set(whole.rows.chunks[chunk] as Uint8Array)
      settle[chunk]?.(true)
    },
    damaged: (chunk: number) => settle[chunk]?.(false),
  }
}

const names = (answer: { signals?: { name: string }[] }) => answer.signals?.map(({ name }) => name).sort()

test('a page waits for the rows that it shows, which are read before others, and for no others', async (t) => {
  const { feed, page, answered, waited, comes, status, hastened } = await resumed(t)
  t.equal(await status(), 200)
  t.equal(feed.see({}, buyer), undefined, 'whoever does not ask for pages finds no feed yet')
  const late = page('late.example')
  await waited(1)
  t.same(hastened, [1])
  const all = page()
  await waited(2)
  comes(0)
  const early = await page('early.example')
  t.same(names(early), ['Signal s1', 'Signal s3'])
  const { wholesale_feed_version: version } = early
  t.match(await page('early.example', { if_wholesale_feed_version: version }), { unchanged: true })
  t.same(names(await page('nobody.example')), [], 'no rows, nothing to wait for')
  t.same(answered, ['early.example', 'early.example', 'nobody.example'])
  comes(1)
  t.same(names(await late), ['Signal s2'])
  t.same(names(await all), ['Signal s1', 'Signal s2', 'Signal s3'])
})

test('when a chunk of rows is damaged nothing is served of it, and nothing else until the feed is built', async (t) => {
  const { whole, feed, page, waited, comes, damaged, status } = await resumed(t)
  comes(0)
  const { pagination } = await page('early.example', { pagination: { max_results: 1 } })
  const asked = [page('late.example'), page()]
  await waited(2)
  damaged(1)
  const more = { pagination: { max_results: 1, cursor: pagination.cursor } }
  for (const answer of [...(await Promise.all(asked)), await page('early.example', more), await page()]) {
    t.match(answer, { adcp_error: { code: 'SERVICE_UNAVAILABLE', retry_after: 1 } })
  }
  t.equal(await status(), 503)
  feed.publish(whole, 0)
  t.equal(await status(), 200)
  t.same(names(await page('late.example')), ['Signal s2'])
})
