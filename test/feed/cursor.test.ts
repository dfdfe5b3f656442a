import fc from 'fast-check'
import { test } from 'tap'
import { createFeed } from '../../src/feed/feed.js'
import type { Reader, WholesaleQuery } from '../../src/feed/query.js'
import { proven } from '../support/proven.js'
import { emptyFeed, publish } from './feed-of.js'
import { pageOf } from './reader.js'
import { anonymous, buyer, listing, sliceOf } from './world.js'

const slices = [
  sliceOf(
    'north',
    Array.from({ length: 9 }, (_, n) => listing(`s${n}`)),
  ),
]
const feed = emptyFeed()
publish(feed, slices)
publish(feed, [sliceOf('north', [listing('s1', { name: 'For the account' }), listing('s2')])], {
  account: 'acc',
})
const member: Reader = { ...buyer, account: 'acc' }

const first = (query: Partial<WholesaleQuery>, reader: Reader) =>
  pageOf(feed.wholesale({ maxResults: 1, ...query }, reader, 0)).cursor as string
const refused = { kind: 'refused', error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' } }

test('a cursor works for its own query, caller and scope only', (t) => {
  const queries: Partial<WholesaleQuery>[] = [{}, { countries: ['DE'] }, { filters: { max_cpm: 5 } }]
  const readers = [buyer, { ...buyer, caller: 'another' }, anonymous, member]
  const uses = queries.flatMap((query) => readers.map((reader) => ({ query, reader })))
  for (const given of uses) {
    const cursor = first(given.query, given.reader)
    for (const used of uses) {
      const answer = feed.wholesale({ maxResults: 1, ...used.query, cursor }, used.reader, 0)
      if (used === given) t.equal(answer.kind, 'page')
      else t.match(answer, refused)
    }
  }
  t.end()
})

test('a cursor that was touched anywhere, or never given, is refused and never page one', (t) => {
  const cursor = first({}, buyer)
  proven(
    t,
    500,
    fc.property(
      fc.oneof(
        fc.string({ maxLength: 120 }),
        fc.base64String({ maxLength: 120 }),
        fc
          .tuple(fc.nat(cursor.length - 1), fc.constantFrom(...'AQgw_-9.'))
          .map(([at, letter]) => cursor.slice(0, at) + letter + cursor.slice(at + 1)),
        fc.nat(cursor.length).map((at) => cursor.slice(0, at)),
        fc.constantFrom(`${cursor}=`, ` ${cursor}`, `${cursor}A`),
      ),
      (text) => {
        fc.pre(text !== cursor)
        return feed.wholesale({ maxResults: 1, cursor: text }, buyer, 0).kind === 'refused'
      },
    ),
  )
  t.end()
})

test('a cursor survives a restart and a change of page size; a secret of another agent does not sign it', (t) => {
  const cursor = first({}, buyer)
  const restarted = emptyFeed()
  publish(restarted, slices)
  const query = { maxResults: 5, cursor }
  const next = pageOf(restarted.wholesale(query, buyer, 0))
  t.same(next.rows, pageOf(feed.wholesale(query, buyer, 0)).rows)
  const stranger = createFeed({ cursorSecret: 'another', retain: { ms: 1_000, bytes: 2 ** 30 } })
  publish(stranger, slices)
  t.match(stranger.wholesale(query, buyer, 0), refused)
  t.end()
})
