import fc from 'fast-check'
import { test } from 'tap'
import { handleKey, identityKey, signalHandle } from '../../src/merge/identity.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { bucketOf } from '../../src/snapshot/digests.js'
import { proven } from '../support/proven.js'
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

/** Names of the stranger's signals whose digests lie in one bucket of the tree. */
function inOneBucket(count: number): string[] {
  const byBucket = new Map<number, string[]>()
  for (let at = 0; ; at += 1) {
    const id = `w${at}`
    const handle = signalHandle(identityKey({ kind: 'provider', domain: 'stranger.example', id }))
    const key = handleKey(handle) as Uint32Array
    const names = byBucket.get(bucketOf(key, 0)) ?? []
    byBucket.set(bucketOf(key, 0), [...names, id])
    if (names.length + 1 === count) return [...names, id]
  }
}

test('a snapshot´s id says which signals are withheld, and its versions do not', (t) => {
  const withheld = fc.subarray(inOneBucket(4))
  const built = (names: readonly string[]) => {
    const rows = names.map((name) => listing(name, {}, 'stranger.example'))
    return buildSnapshot({ slices: [honest, sliceOf('evil', rows)], judge })
  }
  proven(
    t,
    40,
    fc.property(withheld, fc.option(withheld), (some, given) => {
      const others = given ?? [...some].reverse()
      const [one, other] = [built(some), built(others)]
      const isSame = [...some].sort().join() === [...others].sort().join()
      return (
        one.structure === other.structure &&
        one.pricing === other.pricing &&
        (one.id === other.id) === isSame &&
        (one.keys.join() === other.keys.join()) === isSame
      )
    }),
  )
  t.end()
})
