import { test } from 'tap'
import { BUYER, KEYS, OPERATOR, startMcpAgent, startWorld } from './built.js'
import { enter, NO_BROWSER, openBrowser, openPage } from './chromium.js'

const HOLLOW = 'hollow.example'

/** @type {{ type: 'object' }} */
const object = { type: 'object' }
/** @type {import('../test/support/upstream-agent.js').ToolList} */
const TOOLS = [
  {
    name: 'get_signals',
    inputSchema: { type: 'object', properties: { discovery_mode: object, pagination: object } },
  },
]
const EMPTY = { status: 'completed', signals: [], pagination: { has_more: false } }
const PRICES = [
  { pricing_option_id: 'p', model: 'cpm', cpm: 0.00001, currency: 'USD' },
  { pricing_option_id: 'q', model: 'cpm', cpm: 0, currency: 'USD' },
]
const ROWS = PRICES.map((option, at) => ({
  ...{ signal_agent_segment_id: `s${at}`, name: at === 0 ? 'Nearly free' : 'Free', description: 'A row' },
  signal_ref: { scope: 'signal_source', signal_source_url: `https://${HOLLOW}/mcp`, signal_id: `s${at}` },
  ...{ signal_type: 'owned', data_provider: 'Hollow', coverage_percentage: 0, value_type: 'binary' },
  ...{ deployments: [], pricing_options: [option] },
}))

test('what the page says where there is nothing', { skip: NO_BROWSER }, async (t) => {
  /** @type {object[]} */
  let rows = []
  const agent = await startMcpAgent(
    (task) =>
      task === 'get_signals'
        ? {
            ...EMPTY,
            signals: rows,
            ...{ wholesale_feed_version: `v${rows.length}`, pricing_version: `p${rows.length}` },
          }
        : undefined,
    undefined,
    TOOLS,
  )
  t.teardown(agent.close)
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  /** @type {(url: string, key: string) => ReturnType<typeof openPage>} */
  const entered = async (url, key) => {
    const opened = await openPage(browser, url)
    await opened.page.goto(url)
    await enter(opened.page, key, '.bar')
    return opened
  }
  const callers = { anonymous: 'metadata', keys: KEYS }

  await t.test('no upstream', async (t) => {
    const world = await startWorld({ signals: 24, config: () => ({ registries: [], callers }) })
    t.teardown(() => world.close())
    const { url } = world.federation
    const { page, faults } = await entered(url, OPERATOR)
    await page.getByText('There is no signal in the feed').waitFor()
    await page.getByRole('link', { name: 'What each upstream gives' }).click()
    await page.getByText('No upstream is read').waitFor()
    t.equal(await page.locator('main table').count(), 0, 'no heads without rows')
    await page.getByRole('link', { name: 'Providers' }).click()
    await page.getByText('no file is read').waitFor()
    t.equal(await page.locator('main table').count(), 0)
    t.same(faults, [])
    const buyer = await entered(url, BUYER)
    await buyer.page.getByText('Ask whoever runs this server').waitFor()
    t.same(buyer.faults, [])
  })

  await t.test('an upstream that lists nothing, and then something', async (t) => {
    const world = await startWorld({
      signals: 24,
      config: (hosts) => ({
        callers,
        registries: [],
        upstreams: [{ id: 'hollow', url: `https://${HOLLOW}/mcp` }],
        egress: { hosts: { ...hosts, [HOLLOW]: agent.origin } },
      }),
    })
    t.teardown(() => world.close())
    const { url } = world.federation
    const { page, faults } = await entered(url, OPERATOR)
    await page.goto(`${url}/?upstream=hollow`)
    await page.getByRole('link', { name: 'What hollow gives' }).click()
    await page.getByText('it answers, and lists no signal').waitFor()
    await page.goto(`${url}/?page=upstreams&q=other`)
    await page.getByText('No upstream matches').waitFor()
    await page.goto(`${url}/?page=upstreams&id=hollow`)
    rows = ROWS
    await page.getByRole('button', { name: 'Read again' }).click()
    await page.locator('dd', { hasText: /^2$/ }).first().waitFor()
    await page.goto(`${url}/?sort=price`)
    const price = (/** @type {string} */ name) =>
      page
        .locator('tr', { has: page.getByRole('link', { name, exact: true }) })
        .locator('.price')
        .textContent()
    t.equal(await price('Free'), '$0.00')
    t.equal(await price('Nearly free'), '< $0.0001', 'it is not free')
    t.same(faults, [])
  })

  await t.test('a feed that is not there yet is told once, and asked again', async (t) => {
    const world = await startWorld({ signals: 24, config: () => ({ registries: [], callers }) })
    t.teardown(() => world.close())
    const { page } = await entered(world.federation.url, OPERATOR)
    await page.getByText('There is no signal in the feed').waitFor()
    await page.route(/console\/api\/(signals|facets)/, (route) =>
      route.fulfill({ status: 503, headers: { 'retry-after': '1' }, json: { error: 'It is being built' } }),
    )
    await page.goto(`${world.federation.url}/?sort=name`)
    await page.getByText('It is being built. The page asks again by itself.').waitFor()
    t.equal(await page.locator('main .trouble').count(), 1)
    await page.unrouteAll()
    await page.getByText('There is no signal in the feed').waitFor()
  })
})
