import { test } from 'tap'
import type { SignalRef } from '../../src/adcp/signal.js'
import { ask, emptyFeed, ids, publish } from './feed-of.js'
import { rowsOf } from './reader.js'
import { agentUrl, anonymous, buyer, listing, sliceOf } from './world.js'

const { signal_ref: _, ...nameless } = listing('nameless', { signal_agent_segment_id: 'any thing' })
const own = {
  scope: 'signal_source' as const,
  signal_source_url: 'https://claimed.example/',
  signal_id: 'own',
}
const feed = emptyFeed()
publish(feed, [
  sliceOf('north', [listing('a'), listing('b'), listing('own', { signal_ref: own }), nameless]),
  sliceOf('south', [
    listing('a', {
      signal_agent_segment_id: 'south-a',
      pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 3, currency: 'USD' }],
    }),
  ]),
])
const everything = ask(feed, {}).signals

function lookup(refs: SignalRef[], more: object = {}, reader = buyer) {
  const page = feed.lookup({ refs, ...more }, reader)
  if (page.kind !== 'page') throw new Error('a page was expected')
  return rowsOf(page)
}

const provider = (signal_id: string): SignalRef => ({
  scope: 'data_provider',
  data_provider_domain: 'provider.example',
  signal_id,
})

test('every published reference finds its signal again', (t) => {
  for (const row of everything) {
    t.same(lookup([row.signal_ref as SignalRef]), [row])
  }
  t.end()
})

test('signals come in the order asked; what is missing or filtered out is left out, without an error', (t) => {
  const asked = [provider('b'), provider('nothing'), provider('a'), provider('b')]
  t.same(
    lookup(asked).map(({ signal_ref }) => signal_ref.signal_id),
    ['b', 'a'],
  )
  t.same(lookup(asked, { filters: { max_cpm: 1 } }), [])
  t.same(ids(lookup(asked, {}, anonymous)), ['a', 'b'])
  t.end()
})

test('a reference to another source, a product or a claimed source finds nothing', (t) => {
  t.same(lookup([{ ...own, signal_source_url: 'https://claimed.example/' }]), [])
  t.same(lookup([{ scope: 'product', signal_id: 'a' }]), [])
  t.same(
    ids(lookup([{ ...own, signal_source_url: 'https://NORTH.example:443/mcp' }])),
    ['own'],
    'urls compare canonically',
  )
  const native = everything.find(({ name }) => name === 'Signal nameless')?.signal_ref as SignalRef
  t.same(lookup([{ ...native, signal_source_url: agentUrl('south') } as SignalRef]), [])
  t.end()
})

test('a handle leads to every offer, with the ids that its upstream knows', (t) => {
  const [row] = lookup([provider('a')])
  const handle = row?.signal_agent_segment_id as string
  const resolved = feed.resolve(handle)
  t.match(resolved, {
    handle,
    ref: row?.signal_ref,
    offers: [
      { upstream: 'north', agentUrl: agentUrl('north'), scope: 'public', segmentId: 'seg_a' },
      { upstream: 'south', agentUrl: agentUrl('south'), scope: 'public', segmentId: 'south-a' },
    ],
  })
  const options = resolved?.offers.flatMap((offer) => offer.options) ?? []
  t.same(
    options.map(({ option }) => option.pricing_option_id).sort(),
    row?.pricing_options?.map((one) => one.pricing_option_id).sort(),
  )
  t.same(
    options.map(({ upstreamId }) => upstreamId),
    ['po', 'po'],
  )
  t.end()
})

test('an offer handle or an option id pins one offer', (t) => {
  const [row] = lookup([provider('a')])
  const south = row?.ext.tributary.offers.find(({ upstream }) => upstream === 'south')
  const option = row?.pricing_options?.find(({ cpm }) => cpm === 3)
  for (const pin of [south?.handle, option?.pricing_option_id]) {
    t.match(feed.resolve(pin as string)?.offers, [{ upstream: 'south' }])
    t.equal(feed.resolve(pin as string)?.offers.length, 1)
  }
  for (const wrong of [
    '',
    'seg_a',
    `${row?.signal_agent_segment_id}.xxxxxxxx`,
    `${'sig_'.padEnd(26, 'A')}`,
  ]) {
    t.equal(feed.resolve(wrong), undefined)
  }
  t.end()
})

test('a handle leads to what its account has, and without an account to what everybody has', (t) => {
  const shared = emptyFeed()
  publish(shared, [sliceOf('north', [listing('a')])])
  const rows = [listing('a'), listing('only')]
  const snapshot = publish(shared, [sliceOf('gold-north', rows)], { account: 'gold' })
  t.equal(shared.current('gold'), snapshot)
  const handles = new Map(
    ask(shared, {}, { ...buyer, account: 'gold' }).signals.map((row) => [
      row.signal_ref.signal_id,
      row.signal_agent_segment_id as string,
    ]),
  )
  const [a = '', only = ''] = [handles.get('a'), handles.get('only')]
  t.ok(shared.resolve(only, 'gold'))
  t.equal(shared.resolve(only), undefined)
  t.equal(shared.resolve(only, 'silver'), undefined)
  t.match(JSON.stringify(shared.resolve(a, 'gold')), 'gold-north')
  t.notMatch(JSON.stringify(shared.resolve(a)), 'gold-north')
  t.end()
})
