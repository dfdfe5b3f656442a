import { test } from 'tap'
import type { Selection } from '../../src/feed/query.js'
import { inventoryOf } from '../../src/tasks/get-adcp-capabilities.js'
import { ask, emptyFeed, publish } from './feed-of.js'
import { rowsOf, walk } from './reader.js'
import { anonymous, buyer, judgeThat, listing, sliceOf } from './world.js'

const MANY = 6_000
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const country = (at: number) => `${LETTERS[at % 26]}${LETTERS[Math.floor(at / 26) % 26]}`

/** Every row names a platform, a provider and a set of countries of its own. */
const inventing = sliceOf(
  'north',
  Array.from({ length: MANY }, (_, at) =>
    listing(`s${at}`, {
      data_provider: `Provider ${at}`,
      deployments: [{ type: 'platform', platform: `platform-${at}`, is_live: false }],
      countries: [country(at), country(300 + Math.floor(at / 676))],
    }),
  ),
)
const invented = emptyFeed()
const snapshot = publish(invented, [inventing], { judge: judgeThat() })

test('words that upstreams invent are looked at in portions', (t) => {
  const asked: Selection[] = [
    { destinations: [{ type: 'platform', platform: 'platform-7' }] },
    { countries: ['QQ'] },
    { filters: { data_providers: ['provider 7'] } },
  ]
  for (const query of asked) {
    const due = invented.preparing(query, buyer, 0)
    const portions = due ? [...due.work].length : 0
    t.ok(portions >= 3, `${JSON.stringify(query)}: others are answered ${portions} times meanwhile`)
    t.equal(invented.preparing(query, buyer, 0), undefined, 'once')
  }
  t.equal(ask(invented, asked[0] ?? {}).count, 1)
  t.equal(ask(invented, asked[2] ?? {}).count, 1)
  t.end()
})

test('others are answered between any two rows that name much', (t) => {
  const [rows, platforms] = [40, 300]
  const naming = (at: number) =>
    listing(`s${at}`, {
      deployments: Array.from({ length: platforms }, (_, one) => ({
        ...{ type: 'platform' as const, platform: `${'x'.repeat(150)}-${at}-${one}`, is_live: false },
      })),
    })
  const feed = emptyFeed()
  publish(
    feed,
    [
      sliceOf(
        'north',
        Array.from({ length: rows }, (_, at) => naming(at)),
      ),
    ],
    { judge: judgeThat() },
  )
  const due = feed.preparing({ destinations: [{ type: 'platform', platform: 'dsp' }] }, buyer, 0)
  const portions = due ? [...due.work].length : 0
  t.ok(portions >= rows, `${portions} times while ${rows} rows are looked at`)
  t.end()
})

test('what nobody has is answered with what is near, whatever was invented', (t) => {
  const { warnings } = ask(invented, { filters: { data_providers: ['provider 5999 x'] } }, anonymous)
  t.match(warnings, [{ code: 'REFERENCE_NOT_FOUND', field: 'filters.data_providers[0]' }])
  t.same(inventoryOf(snapshot).providerDomains, ['provider.example'])
  t.end()
})

test('a page of rows as large as a stranger may send ends before its size is reached, and the walk does not', (t) => {
  const feed = emptyFeed()
  const large = Array.from({ length: 40 }, (_, at) => listing(`s${at}`, { description: 'x'.repeat(100_000) }))
  publish(feed, [sliceOf('north', large)], { judge: judgeThat() })
  const pages = walk(feed, { maxResults: 40, fields: ['description'] }, buyer)
  t.ok((pages[0]?.count ?? 0) < 40, `${pages[0]?.count} of 40 rows on the first page`)
  t.equal(pages.flatMap(rowsOf).length, 40)
  t.end()
})
