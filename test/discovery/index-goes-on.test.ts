import { type Test, test } from 'tap'
import { createSearchHost } from '../../src/search/search-host.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'

const snapshotOf = (id: string) =>
  buildSnapshot({ slices: [sliceOf('north', [listing(id)])], judge: judgeThat() })

const WORDS = { filler: '', qualifiers: '', same: [], kinds: {}, places: {}, destinations: {} }

async function provesThatItGoesOn(t: Test, inPlaceBytes?: number) {
  const search = createSearchHost(compileSynonyms(WORDS), inPlaceBytes)
  t.teardown(() => search.close())
  const good = snapshotOf('a')
  const broken = { ...good, id: 'broken', rows: { ...good.rows, chunks: [] } }
  const first = search.publish(broken)
  const second = search.publish(good) // before the first has ended
  await Promise.allSettled([first, second])
  t.ok(search.covers(2))
  t.equal(search.current()?.snapshot, good)
  await t.rejects(search.publish({ ...broken, id: 'broken again' }))
  const newer = snapshotOf('b')
  await search.publish(newer)
  t.equal(search.current()?.snapshot, newer)
}

const RULE = 'a snapshot that came while the index of another could not be built is indexed all the same'

test(`${RULE} (in place)`, (t) => provesThatItGoesOn(t))
test(`${RULE} (in a thread)`, (t) => provesThatItGoesOn(t, 0))
