import fc from 'fast-check'
import { test } from 'tap'
import type { Deployment, PricingOption } from '../../src/adcp/signal.js'
import type { Feed } from '../../src/feed/feed.js'
import type { Reader, Selection } from '../../src/feed/query.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { proven } from '../support/proven.js'
import { anyWorld, type World } from './arbitrary.js'
import { emptyFeed, feedOf, publish } from './feed-of.js'
import { pageOf } from './reader.js'
import { anonymous, buyer, judgeThat, listing, sliceOf } from './world.js'

const granted: Reader = {
  ...buyer,
  caller: 'granted',
  grants: [
    { type: 'platform', platform: 'dv360' },
    { type: 'agent', agent_url: 'https://sales.example' },
  ],
}
const grantedElsewhere: Reader = {
  ...buyer,
  caller: 'granted elsewhere',
  grants: [{ type: 'platform', platform: 'the-trade-desk' }],
}
const readers = fc.constantFrom(buyer, anonymous, granted, grantedElsewhere)
const queries = fc.constantFrom<Selection>(
  {},
  { filters: { data_providers: ['one.example'] } },
  { filters: { max_cpm: 2 } },
  { countries: ['DE'] },
  { countries: ['DE', 'US'], filters: { max_cpm: 2 } },
  { destinations: [{ type: 'platform', platform: 'dv360' }] },
  {
    destinations: [{ type: 'agent', agent_url: 'https://sales.example', account: 'acc1' }],
    countries: ['FR'],
  },
)

/** Two worlds that share some of what they are made of, so that equal answers are not rare. */
const kin: fc.Arbitrary<[World, World]> = fc
  .tuple(anyWorld, anyWorld, fc.constantFrom('slices', 'one slice', 'judge', 'all', 'nothing'))
  .map(([one, two, differs]) => {
    const slices = differs === 'one slice' ? [...one.slices.slice(1), ...two.slices.slice(0, 1)] : two.slices
    if (differs === 'all') return [one, two]
    if (differs === 'judge') return [one, { ...one, judge: two.judge }]
    return [one, differs === 'nothing' ? one : { ...one, slices }]
  })

function published({ slices, judge }: World): Feed {
  const feed = emptyFeed()
  feed.publish(buildSnapshot({ slices, judge }), 0)
  return feed
}

function seen(world: World, query: Selection, reader: Reader, feed = published(world)) {
  const page = pageOf(feed.wholesale({ maxResults: 100, ...query }, reader, 0))
  const rows = JSON.parse(`[${Buffer.concat(page.rows)}]`) as Record<string, unknown>[]
  const structure = JSON.stringify(rows.map(({ pricing_options: _, ...row }) => row))
  const prices = JSON.stringify(rows.map(({ pricing_options }) => pricing_options))
  return { feed, page, structure, prices }
}

test('a visible difference of structure moves the feed version, one of prices the pricing version; nothing else does', (t) => {
  proven(
    t,
    50,
    fc.property(kin, queries, readers, ([one, two], query, reader) => {
      const a = seen(one, query, reader)
      const b = seen(two, query, reader)
      if (a.structure !== b.structure && a.page.feedVersion === b.page.feedVersion) return false
      if (
        a.prices !== b.prices &&
        a.structure === b.structure &&
        a.page.pricingVersion === b.page.pricingVersion
      )
        return false
      if (a.structure === b.structure && a.page.feedVersion !== b.page.feedVersion) return false
      return (
        a.prices !== b.prices ||
        a.structure !== b.structure ||
        a.page.pricingVersion === b.page.pricingVersion
      )
    }),
  )
  t.end()
})

test('of readers of one feed, those have one version who are shown the same', (t) => {
  proven(
    t,
    25,
    fc.property(anyWorld, queries, readers, readers, (world, query, first, second) => {
      const a = seen(world, query, first)
      const b = seen(world, query, second, a.feed)
      if (first.visibility !== second.visibility) return a.page.feedVersion !== b.page.feedVersion
      return (a.structure === b.structure) === (a.page.feedVersion === b.page.feedVersion)
    }),
  )
  t.end()
})

test('accounts that are shown the same have versions of their own', (t) => {
  const feed = emptyFeed()
  const open = publish(feed, [sliceOf('north', [listing('a')])])
  const snapshot = buildSnapshot({
    slices: [sliceOf('north', [listing('a'), listing('b')])],
    judge: judgeThat(),
  })
  const own = { snapshot, gaps: [] }
  feed.publish(open, 0, { accounts: new Map(['gold', 'silver'].map((account) => [account, own])) })
  for (const query of [{}, { filters: { max_cpm: 2 } }]) {
    const [gold, silver] = ['gold', 'silver'].map((account) =>
      pageOf(feed.wholesale({ maxResults: 100, ...query }, { ...buyer, account }, 0)),
    )
    t.same(gold?.rows, silver?.rows)
    t.equal(gold?.cacheScope, 'account')
    t.not(gold?.feedVersion, silver?.feedVersion)
    t.not(gold?.pricingVersion, silver?.pricingVersion)
  }
  t.end()
})

test('a version says which signal has which of the keys that its reader sees', (t) => {
  const someKeys = fc.array(fc.constantFrom('k1', 'k2', undefined), { minLength: 3, maxLength: 3 })
  const shown = (keys: readonly (string | undefined)[], query: Selection) => {
    const rows = keys.map((segment_id, at) => {
      const key = segment_id && { activation_key: { type: 'segment_id' as const, segment_id } }
      return listing(`s${at}`, {
        deployments: [{ type: 'platform', platform: 'dv360', is_live: true, ...key }],
      })
    })
    const page = pageOf(feedOf(rows).wholesale({ maxResults: 100, ...query }, granted, 0))
    return { version: page.feedVersion, rows: Buffer.concat(page.rows).toString() }
  }
  proven(
    t,
    25,
    fc.property(someKeys, someKeys, queries, (some, others, query) => {
      const [one, other] = [shown(some, query), shown(others, query)]
      return (one.version === other.version) === (one.rows === other.rows)
    }),
  )
  t.end()
})

test('unchanged is answered only to who would receive the same again', (t) => {
  proven(
    t,
    50,
    fc.property(kin, queries, readers, readers, ([one, two], query, first, second) => {
      const had = seen(one, query, first)
      const now = seen(two, query, second)
      const { feedVersion: ifFeedVersion, pricingVersion } = had.page
      const answer = now.feed.wholesale(
        {
          maxResults: 100,
          ...query,
          ifFeedVersion,
          ...(pricingVersion ? { ifPricingVersion: pricingVersion } : {}),
        },
        second,
        0,
      )
      return answer.kind === 'page' || (had.structure === now.structure && had.prices === now.prices)
    }),
  )
  t.end()
})

test('the two stages: a feed mismatch or a pricing mismatch gives the page, both matching give unchanged', (t) => {
  const feed = feedOf([listing('a')])
  const { feedVersion, pricingVersion } = pageOf(feed.wholesale({ maxResults: 1 }, buyer, 0))
  const kind = (ifFeedVersion: string, ifPricingVersion?: string) =>
    feed.wholesale(
      { maxResults: 1, ifFeedVersion, ...(ifPricingVersion ? { ifPricingVersion } : {}) },
      buyer,
      0,
    ).kind
  t.equal(kind('other'), 'page')
  t.equal(kind('other', pricingVersion), 'page')
  t.equal(kind(feedVersion, 'other'), 'page')
  t.equal(kind(feedVersion, pricingVersion), 'unchanged')
  t.equal(kind(feedVersion), 'unchanged')
  t.end()
})

test('a price moves the pricing version alone, and a provider moves nobody who filtered on another', (t) => {
  const feed = emptyFeed()
  const rows = [listing('a'), listing('b', {}, 'other.example')]
  const versions = (query: Selection) => {
    const { feedVersion, pricingVersion } = pageOf(feed.wholesale({ maxResults: 9, ...query }, buyer, 0))
    return [feedVersion, pricingVersion]
  }
  const other = { filters: { data_providers: ['other.example'] } }
  publish(feed, [sliceOf('north', rows)])
  const before = { all: versions({}), other: versions(other) }
  const dearer = listing('a', {
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 3, currency: 'USD' }],
  })
  publish(feed, [sliceOf('north', [dearer, rows[1] as (typeof rows)[0]])])
  const after = { all: versions({}), other: versions(other) }
  t.equal(after.all[0], before.all[0])
  t.not(after.all[1], before.all[1])
  t.same(after.other, before.other)
  t.end()
})

test('each deployment of a signal moves the tokens of those who ask for it, wherever it stands', (t) => {
  const platforms = ['dv360', 'the-trade-desk', 'xandr']
  const tokensWhere = (moved: string) => {
    const deployments = platforms.map((platform) => {
      return { type: 'platform', platform, is_live: platform === moved } as const
    })
    const feed = feedOf([listing('s', { deployments })])
    return platforms.map((platform) => {
      const query = { destinations: [{ type: 'platform' as const, platform }], maxResults: 9 }
      return pageOf(feed.wholesale(query, buyer, 0)).feedVersion
    })
  }
  const before = tokensWhere('nowhere')
  for (const moved of platforms) {
    t.same(
      tokensWhere(moved).map((token, at) => token !== before[at]),
      platforms.map((platform) => platform === moved),
    )
  }
  t.end()
})

test('what a tuple does not show of its signals moves none of its tokens', (t) => {
  const on = (platform: string, segment_id: string, minutes: number): Deployment[] => [
    { type: 'platform', platform, is_live: false, estimated_activation_duration_minutes: minutes },
    {
      type: 'platform',
      platform,
      account: 'a',
      is_live: true,
      activation_key: { type: 'segment_id', segment_id },
    },
  ]
  const at = (cpm: number): PricingOption[] => [
    { pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' },
  ]
  type Shown = { key: string; minutes: number; price: number }
  const worldOf = ({ key, minutes, price }: Shown, hidden: Shown) => {
    const feed = emptyFeed()
    const deployments = [...on('dv360', key, minutes), ...on('elsewhere', hidden.key, hidden.minutes)]
    publish(feed, [
      sliceOf('alpha', [
        listing('s', { deployments, countries: ['DE'], pricing_options: at(price) }),
        listing('t', { deployments, pricing_options: at(price) }),
      ]),
      sliceOf('beta', [
        listing('s', {
          deployments: on('dv360', hidden.key, hidden.minutes),
          countries: ['US'],
          pricing_options: at(hidden.price),
        }),
      ]),
    ])
    return feed
  }
  const query = { countries: ['DE'], destinations: [{ type: 'platform' as const, platform: 'dv360' }] }
  const everything: Reader = {
    ...granted,
    grants: [...granted.grants, { type: 'platform', platform: 'elsewhere' }],
  }
  const tokens = (shown: Shown, hidden: Shown) => {
    const { feedVersion, pricingVersion } = pageOf(
      worldOf(shown, hidden).wholesale({ ...query, maxResults: 9 }, everything, 0),
    )
    return [feedVersion, pricingVersion]
  }
  const one = { key: 'k1', minutes: 60, price: 5 }
  const before = tokens(one, one)
  for (const moved of [{ key: 'k2' }, { minutes: 5 }, { price: 1 }]) {
    t.same(tokens(one, { ...one, ...moved }), before)
    t.strictNotSame(tokens({ ...one, ...moved }, one), before)
  }
  t.end()
})
