import { test } from 'tap'
import { ask, emptyFeed, ids, publish } from './feed-of.js'
import { rowsOf, walk } from './reader.js'
import { buyer, judgeThat, listing, sliceOf, UNAUTHORIZED } from './world.js'

const NAMES = Array.from({ length: 40 }, (_, at) => `s${at}`)
const judge = judgeThat((domain) => (domain === 'stranger.example' ? { decide: () => UNAUTHORIZED } : {}))
const honest = sliceOf(
  'north',
  NAMES.map((name) => listing(name)),
)
const strangers = sliceOf(
  'evil',
  NAMES.map((name) => listing(name, {}, 'stranger.example')),
)
const owned = { filters: { catalog_types: ['marketplace', 'owned'] } }

test('rows that are not shown change nothing in what is shown of others', (t) => {
  const feed = emptyFeed()
  const before = publish(feed, [honest], { judge })
  t.same(ids(ask(feed, owned).signals), [...NAMES].sort())
  const after = publish(feed, [honest, strangers], { judge })
  t.equal(after.structure, before.structure, 'the version stays')
  t.same(ids(ask(feed, owned).signals), [...NAMES].sort())
  t.end()
})

test('a walk goes on where it was when rows come that are not shown', (t) => {
  const feed = emptyFeed()
  publish(feed, [honest], { judge })
  const seen = walk(feed, { maxResults: 7, ...owned }, buyer, (page) => {
    if (page === 2) publish(feed, [honest, strangers], { judge })
    if (page === 4) publish(feed, [honest], { judge })
  })
  t.same(ids(seen.flatMap(rowsOf)), [...NAMES].sort())
  t.end()
})
