import fc from 'fast-check'
import { test } from 'tap'
import { createFeed, type Feed } from '../../src/feed/feed.js'
import type { Reader, WholesaleAnswer, WholesaleQuery } from '../../src/feed/query.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { proven } from '../support/proven.js'
import { anySlices } from './arbitrary.js'
import { emptyFeed, publish } from './feed-of.js'
import { buyer, judgeThat, listing, sliceOf } from './world.js'

const RETAIN = { ms: 10_000, bytes: 2 ** 30 }
const READERS: readonly Reader[] = [
  buyer,
  { ...buyer, visibility: 'metadata', caller: 'anonymous' },
  { ...buyer, account: 'acc' },
  { ...buyer, caller: 'granted', grants: [{ type: 'platform', platform: 'the-trade-desk' }] },
]

/** Everything that an answer says; its rows as one text. */
function said(answer: WholesaleAnswer): string {
  return JSON.stringify(
    answer.kind === 'page' ? { ...answer, rows: Buffer.concat(answer.rows).toString() } : answer,
    (_, value) => (value instanceof Set ? [...value] : value),
  )
}

const again = (feed: Feed, query: WholesaleQuery, reader: Reader, now: number) =>
  feed.known(query, reader, now) ?? feed.wholesaleAgain(query, reader, now)

/** What may happen between two questions: another feed, an account's own, an account that is another, time. */
const step = fc.oneof(
  fc.record({ world: anySlices }),
  fc.record({ own: anySlices }),
  fc.record({ isCurrent: fc.boolean() }),
  fc.record({ passes: fc.constantFrom(1, 6_000) }),
)

test('who asks again is told what anybody is told who asks for the first time, whatever has happened meanwhile', (t) => {
  const property = fc.property(fc.array(step, { minLength: 4, maxLength: 10 }), (steps) => {
    const feed = emptyFeed(RETAIN)
    publish(feed, [sliceOf('north', [listing('a'), listing('b'), listing('c')])])
    const selections: Omit<WholesaleQuery, 'maxResults'>[] = [
      {},
      { fields: ['name'] },
      { destinations: [{ type: 'platform', platform: 'dv360' }] },
      { countries: ['DE'], filters: { max_cpm: 3 } },
    ]
    const queries: WholesaleQuery[] = selections.map((one) => ({ maxResults: 2, ...one }))
    const found: WholesaleQuery[] = []
    let now = 0
    let isCurrent = true
    for (const one of steps) {
      if ('passes' in one) now += one.passes
      if ('isCurrent' in one) isCurrent = one.isCurrent
      const moments = READERS.map(feed.moment)
      if ('world' in one) publish(feed, one.world, { now })
      const shown = feed.current()
      if ('own' in one && shown) {
        const snapshot = buildSnapshot({ previous: shown, slices: one.own, judge: judgeThat() })
        const accounts = new Map([['acc', { snapshot, gaps: [] }]])
        feed.publish(shown, now, { accounts, isCurrent: () => isCurrent })
      }
      for (const [at, reader] of READERS.entries()) {
        for (const query of [...queries, ...found.slice(0, 8)]) {
          // Whose work began before what happened is answered from then, and nobody else is.
          if (!feed.known(query, reader, now)) feed.wholesaleAgain(query, reader, now, moments[at])
          const fresh = feed.wholesale({ ...query }, { ...reader }, now)
          for (const _ of [1, 2]) if (said(again(feed, query, reader, now)) !== said(fresh)) return false
          if (fresh.kind !== 'page') continue
          // Walks and polls of what was told, by whoever asks next.
          if (fresh.cursor) found.push({ ...query, cursor: fresh.cursor })
          found.push({ ...query, ifFeedVersion: fresh.feedVersion })
        }
      }
    }
    return true
  })
  proven(t, 12, property)
  t.end()
})

test('an answer is kept until another generation is published, and not for other objects', (t) => {
  const feed = emptyFeed(RETAIN)
  const slices = [sliceOf('north', [listing('a'), listing('b')])]
  publish(feed, slices)
  const query = { maxResults: 1 }
  t.equal(feed.known(query, buyer, 0), undefined)
  const first = feed.wholesaleAgain(query, buyer, 0)
  t.equal(feed.known(query, buyer, 0), first)
  t.equal(feed.known({ maxResults: 1 }, buyer, 0), undefined)
  t.equal(feed.known(query, { ...buyer }, 0), undefined)
  publish(feed, slices)
  t.equal(feed.known(query, buyer, 0), undefined)
  t.end()
})

test('rows that were taken apart for one reader are shared with all who are shown the same, and with nobody else', (t) => {
  const feed = emptyFeed(RETAIN)
  publish(feed, [sliceOf('north', [listing('a'), listing('b')])])
  const query = { maxResults: 2, fields: ['name'] }
  const rowsFor = (reader: Reader) => {
    const answer = feed.wholesale({ ...query }, reader, 0)
    return answer.kind === 'page' ? answer.rows : []
  }
  const [once] = rowsFor(buyer)
  const [one] = rowsFor(buyer)
  t.not(one, once, 'what is asked for once is not kept')
  t.same(one, once)
  t.equal(rowsFor({ ...buyer, caller: 'another' })[0], one)
  const [open] = rowsFor({ ...buyer, visibility: 'metadata' })
  t.not(open, one)
  t.notOk(Buffer.from(open as Uint8Array).includes('pricing_options'))
  t.end()
})

test('a page of a walk is given again no longer than its snapshot is kept, where prices are converted too', async (t) => {
  const rates = {
    asOf: '2026-11-01',
    worth: new Map([
      ['USD', 1],
      ['EUR', 1.08],
    ]),
  }
  const feed = createFeed({ cursorSecret: 's', retain: RETAIN, rates: () => rates })
  const priced = (id: string) =>
    listing(id, { pricing_options: [{ pricing_option_id: 'u', model: 'cpm', cpm: 1, currency: 'USD' }] })
  publish(feed, [sliceOf('north', [priced('a'), priced('b')])], { now: 0 })
  const query: WholesaleQuery = { maxResults: 1, filters: { max_cpm: 50 } }
  const first = feed.wholesale(query, buyer, 0)
  if (first.kind !== 'page') return t.fail('no page')
  t.ok(first.cursor)
  publish(feed, [sliceOf('north', [priced('a'), priced('c')])], { now: 1 })
  const next: WholesaleQuery = { ...query, ...(first.cursor !== undefined && { cursor: first.cursor }) }
  t.equal(said(again(feed, next, buyer, 2)), said(feed.wholesale(next, buyer, 2)))
  const late = 2 * RETAIN.ms
  t.equal(said(again(feed, next, buyer, late)), said(feed.wholesale(next, buyer, late)))
})
