/** What an agent said of whom its prices are for holds for answers that do not say, in every process and until it says otherwise. */
import { type Test, test } from 'tap'
import { createCollector } from '../../src/upstreams/rows/new-slice.js'
import { listingsOf, readRows } from '../../src/upstreams/rows/read-rows.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../../src/upstreams/rows/slice.js'
import { createPassingBlobs } from '../../src/upstreams/rows/storage.js'
import { createAccountPrices } from '../../src/upstreams/walk/account-prices.js'
import { createLearntStore } from '../../src/upstreams/walk/learnt.js'
import { OTHERS_TURNS } from '../support/others-turns.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

type Scopes = { feed?: string; brief?: string }

/** Its feed can be held back. */
async function startAgent(t: Test, scopes: Scopes) {
  let gate = Promise.resolve()
  const { url, close } = await startMcpAgent(async (task, { discovery_mode: mode }) => {
    if (task === 'get_adcp_capabilities') {
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale', 'brief'] } }
    }
    if (task !== 'get_signals') return undefined
    if (mode !== 'wholesale') return { signals: [row(1), row(2)], cache_scope: scopes.brief }
    await gate
    return { signals: [row(1)], cache_scope: scopes.feed, wholesale_feed_version: 'v1' }
  })
  t.teardown(close)
  return {
    url,
    holdBack(): () => void {
      let open = () => {}
      gate = new Promise((resolve) => {
        open = resolve
      })
      t.teardown(open)
      return open
    },
  }
}

const reader = (url: string, token = 'A') => configOf([{ id: 'a', url, auth: { type: 'bearer', token } }])

type Opened = Awaited<ReturnType<typeof openUpstreams>>['upstreams']

async function priced(upstreams: Opened): Promise<boolean[]> {
  const args = { signal_spec: 'autos', discovery_mode: 'brief' }
  const asked = { deadline: Date.now() + 60_000 }
  const outcome = await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', args, asked)
  return outcome.kind === 'answer' ? listingsOf(outcome.rows).map((one) => 'pricing_options' in one) : []
}

const isRead = async (upstreams: Opened) => {
  await upstreams.start()
  await until('a reading', () => upstreams.statuses()[0]?.nextAttemptAt !== undefined)
}

test('it holds while the feed is read for the first time after a restart', async (t) => {
  const agent = await startAgent(t, { feed: 'account' })
  const folder = await temporaryFolder(t)
  const first = await openUpstreams(t, reader(agent.url), { folder })
  await isRead(first.upstreams)
  t.same(await priced(first.upstreams), [false, false])
  await first.close()
  agent.holdBack()
  const second = await openUpstreams(t, reader(agent.url), { folder })
  await second.upstreams.start()
  t.same(await priced(second.upstreams), [false, false])
})

test('with another credential nothing is known until the feed has been read', async (t) => {
  const scopes: Scopes = { feed: 'account' }
  const agent = await startAgent(t, scopes)
  const { upstreams } = await openUpstreams(t, reader(agent.url))
  await isRead(upstreams)
  scopes.feed = undefined
  const open = agent.holdBack()
  upstreams.reconfigure(reader(agent.url, 'B'))
  t.same(await priced(upstreams), [false, false])
  scopes.brief = 'public'
  t.same(await priced(upstreams), [true, true], 'but what the answer says itself')
  scopes.brief = undefined
  open()
})

test('an agent that never says so has prices for everybody, once it has been read', async (t) => {
  const agent = await startAgent(t, {})
  const open = agent.holdBack()
  const { upstreams } = await openUpstreams(t, reader(agent.url))
  await upstreams.start()
  t.same(await priced(upstreams), [false, false])
  open()
  await until('a slice', () => upstreams.slices().length === 1)
  t.same(await priced(upstreams), [true, true])
})

test('another process knows what the one that reads was told, and the other way round', async (t) => {
  const scopes: Scopes = { feed: 'account' }
  const agent = await startAgent(t, scopes)
  const folder = await temporaryFolder(t)
  const other = await openUpstreams(t, reader(agent.url), { folder, sharing: OTHERS_TURNS })
  await other.upstreams.start()
  t.same(await priced(other.upstreams), [false, false], 'nothing is known')
  const one = await openUpstreams(t, reader(agent.url), { folder })
  await isRead(one.upstreams)
  t.same(await priced(other.upstreams), [false, false])
  scopes.feed = 'public'
  one.upstreams.refreshWhole('a')
  await until('what it says now', async () => (await priced(other.upstreams))[0] === true)
})

test('prices of one credential do not stand in for those of another one', async (t) => {
  const count = 6_000
  let isOut = false
  const { url, close } = await startMcpAgent((task, { pagination }) => {
    if (task === 'get_adcp_capabilities') {
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
    }
    if (task !== 'get_signals') return undefined
    const from = Number((pagination as { cursor?: string }).cursor ?? 0)
    const end = from + 1_000
    const more = isOut ? { pricing_options: undefined } : {}
    return {
      signals: Array.from({ length: 1_000 }, (_, at) => row(from + at, more)),
      ...{
        cache_scope: 'account',
        ...(isOut && { incomplete: [{ scope: 'pricing', description: 'down' }] }),
      },
      pagination: end < count ? { has_more: true, cursor: `${end}` } : { has_more: false },
    }
  })
  t.teardown(close)
  const shown = (token: string) =>
    configOf([{ id: 'a', url, accountPrices: 'public', auth: { type: 'bearer', token } }])
  const { upstreams } = await openUpstreams(t, shown('A'))
  await isRead(upstreams)
  const slice = () => upstreams.slices()[0]
  const prices = () =>
    Array.from({ length: count }, (_, at) => sliceListing(slice() as Slice, at)).filter(
      ({ pricing_options }) => pricing_options,
    ).length
  t.equal(prices(), count)
  isOut = true
  upstreams.reconfigure(shown('B'))
  await until('the reading with B', () => slice()?.outages !== undefined)
  t.equal(prices(), 0)
  t.same(slice()?.outages, { pricing: 0 }, 'it is not said that the last ones stand')
  isOut = false
  upstreams.refreshWhole('a')
  await until('its own', () => prices() === count)
})

test('what a page says holds for the pages of the reading that did not say', async (t) => {
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: 'https://a.example/mcp' }]))
  const [entry] = upstreams.roster().entries
  if (!entry) throw new Error('it is configured')
  const learnt = createLearntStore({ blobs: createPassingBlobs(), onTrouble: t.fail })
  const prices = createAccountPrices(entry, learnt)
  const answer = (payload: Readonly<Record<string, unknown>>, at: number) =>
    prices.read({ kind: 'answer', payload, rows: readRows([Buffer.from(JSON.stringify(row(at)))]) })
  const collector = createCollector()
  for (const outcome of [await answer({}, 1), await answer({ cache_scope: 'account' }, 2)]) {
    if (outcome.kind === 'answer') await collector.take(outcome.rows)
  }
  const found = await prices.settled(collector.finish())
  const texts = [0, 1].map((at) => Buffer.from(slabRow(found.rows, at)).toString())
  t.same(
    texts.map((text) => text.includes('pricing_options')),
    [false, false],
  )
})
