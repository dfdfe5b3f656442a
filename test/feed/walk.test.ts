import fc from 'fast-check'
import { test } from 'tap'
import { createLayers } from '../../src/feed/layers.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import { anySlices } from './arbitrary.js'
import { emptyFeed, publish } from './feed-of.js'
import { pageOf, rowsOf, walk } from './reader.js'
import { buyer, judgeThat, listing, sliceOf } from './world.js'

const texts = (pages: readonly { rows: readonly Uint8Array[]; count: number }[]) =>
  pages.flatMap((page) => rowsOf(page).map((row) => JSON.stringify(row)))

test('a walk while the feed moves returns exactly one snapshot, without a duplicate or a gap', (t) => {
  const worlds = fc.array(anySlices, { minLength: 1, maxLength: 5 })
  proven(
    t,
    13,
    fc.property(worlds, fc.integer({ min: 1, max: 4 }), (all, maxResults) => {
      const feed = emptyFeed({ ms: 60_000, bytes: 2 ** 30 })
      publish(feed, all[0] as (typeof all)[0])
      const expected = texts(walk(feed, { maxResults: 100 }, buyer))
      const pages = walk(feed, { maxResults }, buyer, (page) =>
        publish(feed, all[page % all.length] as (typeof all)[0]),
      )
      const versions = new Set(
        pages.map(({ feedVersion, pricingVersion }) => `${feedVersion} ${pricingVersion}`),
      )
      const seen = texts(pages)
      return (
        versions.size === 1 &&
        seen.length === expected.length &&
        seen.every((row, at) => row === expected[at])
      )
    }),
  )
  t.end()
})

const rows = Array.from({ length: 10 }, (_, n) => listing(`s${n}`))

test('when its snapshot is gone, a walk goes on behind its place, and the new version tells', (t) => {
  for (const [gone, retain, now] of [
    ['for want of memory', { ms: 60_000, bytes: 0 }, 0],
    ['by time', { ms: 1_000, bytes: 2 ** 30 }, 1_000],
  ] as const) {
    const feed = emptyFeed(retain)
    publish(feed, [sliceOf('north', rows)])
    const first = pageOf(feed.wholesale({ maxResults: 4 }, buyer, 0))
    const last = rowsOf(first).at(-1)?.signal_agent_segment_id as string
    publish(feed, [sliceOf('north', [...rows, listing('s10')])])
    const next = pageOf(feed.wholesale({ maxResults: 4, cursor: first.cursor as string }, buyer, now))
    t.not(next.feedVersion, first.feedVersion, gone)
    const all = texts(walk(feed, {}, buyer))
    const from = all.findIndex((row) => row.includes(`"signal_agent_segment_id":"${last}"`))
    t.same(texts([next]), all.slice(from + 1, from + 5), gone)
  }
  t.end()
})

test('a walk finishes on its snapshot however often the feed changes meanwhile', (t) => {
  const feed = emptyFeed({ ms: 60_000, bytes: 2 ** 30 })
  publish(feed, [sliceOf('north', rows)])
  const expected = texts(walk(feed, { maxResults: 100 }, buyer))
  let change = 0
  const pages = walk(feed, { maxResults: 1 }, buyer, () => {
    for (let times = 0; times < 20; times += 1) {
      change += 1
      publish(feed, [
        sliceOf('north', [...rows.slice(1), listing('s0', { coverage_percentage: change % 97 })]),
      ])
    }
  })
  t.same(texts(pages), expected)
  t.equal(new Set(pages.map(({ feedVersion }) => feedVersion)).size, 1)
  t.match(feed.retained(), { snapshots: 1 }, 'generations that nobody walks in are not kept')
  t.end()
})

test('a replaced snapshot is found in its own layer only, for as long as that does not return to it', (t) => {
  const built = ['open', 'later', 'gold', 'silver'].map((id) =>
    buildSnapshot({ slices: [sliceOf('north', [listing(id)])], judge: judgeThat() }),
  )
  const [open, later, gold, silver] = built as [Snapshot, Snapshot, Snapshot, Snapshot]
  const layers = createLayers({ ms: 60_000, bytes: 2 ** 30 })
  const publish = (everybodys: Snapshot, accounts: Record<string, Snapshot>) =>
    layers.publish(everybodys, 0, {
      accounts: new Map(Object.entries(accounts).map(([name, snapshot]) => [name, { snapshot, gaps: [] }])),
    })
  publish(open, { gold, silver })
  layers.walk(gold)
  publish(open, { silver })
  t.equal(layers.findOwn('gold', gold.id, 0)?.snapshot, gold)
  t.equal(layers.findOwn('silver', gold.id, 0), undefined)
  t.equal(layers.find(gold.id, 0), undefined)
  publish(open, { silver: gold })
  t.equal(layers.findOwn('gold', gold.id, 0)?.snapshot, gold, 'another layer has it now')
  layers.walk(open)
  publish(open, { silver: open })
  publish(later, { silver: later })
  t.match(layers.retained(), { snapshots: 2 }, 'what two layers showed is kept once')
  publish(open, {})
  t.match(layers.retained(), { snapshots: 1 }, 'walks in it go on in the current one')
  t.end()
})

test('when memory is short the oldest walks go first, and start again', (t) => {
  const bounds = fc.integer({ min: 0, max: 40_000 })
  proven(
    t,
    13,
    fc.property(fc.integer({ min: 1, max: 8 }), bounds, (generations, bytes) => {
      const feed = emptyFeed({ ms: 60_000, bytes })
      const walks = Array.from({ length: generations }, (_, n) => {
        publish(feed, [sliceOf('north', [...rows, listing(`of ${n}`)])], { now: n })
        return pageOf(feed.wholesale({ maxResults: 4 }, buyer, n))
      })
      if (feed.retained().bytes > bytes) return false
      const next = walks.map(({ cursor }) =>
        pageOf(feed.wholesale({ maxResults: 4, cursor: cursor as string }, buyer, generations)),
      )
      const goesOn = next.map(({ feedVersion }, n) => feedVersion === walks[n]?.feedVersion)
      const firstKept = goesOn.indexOf(true)
      const current = walks.at(-1)?.feedVersion
      return (
        goesOn.at(-1) === true &&
        goesOn.slice(firstKept).every((kept) => kept) &&
        next.slice(0, firstKept).every(({ feedVersion }) => feedVersion === current)
      )
    }),
  )
  t.end()
})

test('mid-walk, the version the pages came from is answered by whether the feed moved, not by page', (t) => {
  const feed = emptyFeed()
  publish(feed, [sliceOf('north', rows)])
  const first = pageOf(feed.wholesale({ maxResults: 4 }, buyer, 0))
  const again = { maxResults: 4, cursor: first.cursor as string, ifFeedVersion: first.feedVersion }
  t.equal(feed.wholesale(again, buyer, 0).kind, 'unchanged')
  publish(feed, [sliceOf('north', [...rows, listing('s10')])])
  t.equal(pageOf(feed.wholesale(again, buyer, 0)).feedVersion, first.feedVersion)
  t.end()
})

test('pages end without a cursor, and count everything', (t) => {
  const feed = emptyFeed()
  publish(feed, [sliceOf('north', rows)])
  const pages = walk(feed, { maxResults: 5 }, buyer)
  t.same(
    pages.map(({ count, total, cursor }) => [count, total, cursor !== undefined]),
    [
      [5, 10, true],
      [5, 10, false],
    ],
  )
  publish(feed, [])
  t.match(feed.wholesale({ maxResults: 5 }, buyer, 0), { kind: 'page', count: 0, total: 0, rows: [] })
  t.end()
})
