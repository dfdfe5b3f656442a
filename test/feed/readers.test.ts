import assert from 'node:assert/strict'
import { test } from 'tap'
import type { Deployment } from '../../src/adcp/signal.js'
import type { Reader } from '../../src/feed/query.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { ask, emptyFeed, feedOf, publish } from './feed-of.js'
import { pageOf, rowsOf } from './reader.js'
import { anonymous, buyer, judgeThat, listing, sliceOf } from './world.js'

const live = (platform: string, segment_id: string, account?: string): Deployment => ({
  type: 'platform',
  platform,
  is_live: true,
  activation_key: { type: 'segment_id', segment_id },
  ...(account ? { account } : {}),
})
const deployments = [
  live('one', 'key-one'),
  live('two', 'key-two'),
  live('one', 'key-account', 'acc1'),
  { ...live('three', 'key-dead'), is_live: false },
]
const rows = [listing('keyed', { deployments }), listing('plain')]
const reader = (...grants: Reader['grants'][number][]): Reader => ({ ...buyer, grants })
const keys = (signals: readonly object[]) =>
  [...JSON.stringify(signals).matchAll(/key-\w+/g)].map(([key]) => key).sort()

test('activation keys are given for live deployments that the reader is granted, and no others', (t) => {
  const feed = feedOf(rows)
  const given = (who: Reader) => keys(ask(feed, {}, who).signals)
  t.same(given(buyer), [])
  t.same(given(reader({ type: 'platform', platform: 'two' })), ['key-two'])
  t.same(given(reader({ type: 'platform', platform: 'one' })), ['key-account', 'key-one'])
  t.same(given(reader({ type: 'platform', platform: 'one', account: 'acc1' })), ['key-account', 'key-one'])
  t.same(given(reader({ type: 'platform', platform: 'one', account: 'acc2' })), ['key-one'])
  t.same(given(reader({ type: 'platform', platform: 'three' })), [])
  t.same(given({ ...reader({ type: 'platform', platform: 'two' }), visibility: 'metadata' }), [])
  t.end()
})

test('grants are told apart whatever the names in them hold', (t) => {
  const one = reader({ type: 'platform', platform: 'one' }, { type: 'platform', platform: 'two' })
  const other = reader({ type: 'platform', platform: 'one platform:two' })
  const feed = feedOf(rows)
  for (const _ of ['first', 'kept']) t.equal(keys(ask(feed, {}, one).signals).length, 3)
  const seen = ask(feed, {}, other)
  t.same(keys(seen.signals), [])
  t.not(seen.feedVersion, ask(feed, {}, one).feedVersion)
  t.equal(seen.feedVersion, ask(feed, {}, buyer).feedVersion)
  t.end()
})

test("a key that moved moves the version of who sees it, and nobody else's", (t) => {
  const granted = reader({ type: 'platform', platform: 'two' })
  const version = (segment: string, who: Reader) =>
    ask(feedOf([listing('keyed', { deployments: [live('two', segment)] })]), {}, who).feedVersion
  t.not(version('key-a', granted), version('key-b', granted))
  t.equal(version('key-a', buyer), version('key-b', buyer))
  t.end()
})

test('without prices in sight there is no price, no version of prices, and no filter that tells them', (t) => {
  const feed = feedOf(rows)
  const seen = ask(feed, { filters: { max_cpm: 1 } }, anonymous)
  t.equal(seen.signals.length, rows.length)
  t.notMatch(JSON.stringify(seen.signals), /pricing|cpm/)
  t.match(seen.warnings, [{ code: 'PRICING_UNAVAILABLE', field: 'filters.max_cpm' }])
  const destinations = [{ type: 'platform' as const, platform: 'one' }]
  for (const query of [{ fields: ['pricing_options'] }, { destinations }]) {
    t.notMatch(JSON.stringify(ask(feed, query, anonymous).signals), /pricing|cpm/)
  }
  t.equal(seen.pricingVersion, undefined)
  t.not(ask(feed, {}, anonymous).feedVersion, ask(feed, {}, buyer).feedVersion)

  const dearer = listing('plain', {
    pricing_options: [{ pricing_option_id: 'x', model: 'cpm', cpm: 5, currency: 'USD' }],
  })
  const moved = feedOf([rows[0] as (typeof rows)[0], dearer])
  t.equal(ask(moved, {}, anonymous).feedVersion, ask(feed, {}, anonymous).feedVersion)
  t.end()
})

test('an account is answered from its overlay only where that differs', (t) => {
  const feed = emptyFeed()
  const others = listing('b', {}, 'other.example')
  publish(feed, [sliceOf('north', [listing('a'), others])])
  const deal = listing('a', {
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
  })
  publish(feed, [sliceOf('north', [deal, others], { scope: 'acc' })], { account: 'acc' })
  const member: Reader = { ...buyer, account: 'acc' }
  const scopes = (who: Reader, domain?: string) => {
    const page = ask(feed, domain ? { filters: { data_providers: [domain] } } : {}, who)
    return {
      scope: page.cacheScope,
      version: page.feedVersion,
      cpm: page.signals.map((row) => row.pricing_options?.[0]?.cpm),
    }
  }
  t.match(scopes(buyer), { scope: 'public', cpm: [2, 2] })
  t.equal(scopes(member).scope, 'account')
  t.same(scopes(member).cpm.sort(), [1, 2])
  t.not(scopes(member).version, scopes(buyer).version, 'a token of one scope matches in no other')
  t.same(scopes(member, 'other.example'), scopes(buyer, 'other.example'), 'the same answer is the public one')
  t.same(scopes({ ...member, account: 'unknown' }), scopes(buyer))

  publish(feed, [sliceOf('north', [listing('a'), others])])
  t.same(scopes(member), scopes(buyer))
  t.end()
})

test('a name that stands for another account shows nothing of the one before, at once and in every walk', (t) => {
  const feed = emptyFeed()
  const priced = (cpm: number) => [
    sliceOf(
      'north',
      ['a', 'b', 'c'].map((id) =>
        listing(id, { pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }] }),
      ),
    ),
  ]
  const [open, own] = [priced(2), priced(1)].map((slices) => buildSnapshot({ slices, judge: judgeThat() }))
  assert.ok(open && own)
  let named = 'gold'
  const generation = (account: string, snapshot: typeof own) => ({
    accounts: new Map([['acc', { snapshot, gaps: [] }]]),
    isCurrent: () => named === account,
  })
  const member: Reader = { ...buyer, account: 'acc' }
  const cpms = ({ rows, count }: ReturnType<typeof pageOf>) =>
    rowsOf({ rows, count }).map((row) => row.pricing_options?.[0]?.cpm)
  const page = (cursor?: string) =>
    pageOf(feed.wholesaleAgain({ maxResults: 1, ...(cursor && { cursor }) }, member, 0))

  feed.publish(open, 0, generation('gold', own))
  const first = page()
  t.same(cpms(first), [1])
  const handle = rowsOf(first)[0]?.signal_agent_segment_id as string
  const sold = () => feed.resolve(handle, 'acc')?.offers[0]?.options
  t.match(sold(), [{ option: { cpm: 1 } }])

  named = 'silver'
  for (const when of ['before the next generation', 'after it']) {
    for (const cursor of [undefined, first.cursor]) {
      const seen = page(cursor)
      t.same(cpms(seen), [2], when)
      t.not(seen.pricingVersion, first.pricingVersion, when)
      t.match(seen, {
        cacheScope: 'account',
        gaps: [{ kind: when === 'after it' ? 'account' : 'other_account' }],
      })
    }
    t.match(sold(), [{ option: { cpm: 2 } }], when)
    const unread = {
      snapshot: open,
      gaps: [{ kind: 'account' as const, agentUrl: 'https://north.example/mcp' }],
    }
    feed.publish(open, 0, { ...generation('silver', open), accounts: new Map([['acc', unread]]) })
  }

  named = 'gold'
  t.same(cpms(page(first.cursor)), [1], 'it is the first account again, and so is the walk')
  t.end()
})

test('before the first snapshot every read says so', (t) => {
  const feed = emptyFeed()
  const notReady = { kind: 'refused', error: { code: 'SERVICE_UNAVAILABLE', recovery: 'transient' } }
  t.match(feed.wholesale({ maxResults: 1 }, buyer, 0), notReady)
  t.match(feed.lookup({ refs: [] }, buyer), notReady)
  t.equal(feed.resolve('sig_', undefined), undefined)
  t.end()
})
