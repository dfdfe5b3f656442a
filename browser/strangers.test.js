import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { BUYER, callTool, KEYS, OPERATOR, read, startHttp, startMcpAgent, startWorld } from './built.js'
import { enter, NO_BROWSER, openBrowser, openPage } from './chromium.js'

const STRANGE = 'strange.example'
const DOWN = 'registry-down.example'
const MARKUP = '<img src=x onerror="window.planted=1">'
const SCRIPT = '<script>window.planted=1</script>'
const LONG = 'Averylongnamewithoutanyspace'.repeat(10)
const BLANK = '\u200B '
const MARKS = `Z${Array.from({ length: 300 }, (_, at) => String.fromCharCode(0x300 + (at % 0x70))).join('')}`
const NAMES = [MARKUP, SCRIPT, LONG, '\u202Ebackwards', BLANK, MARKS, 'An ordinary name']

/** Rows in whose every text somebody has written what a page must show and never run. */
const ROWS = NAMES.map((name, at) => ({
  ...{
    signal_agent_segment_id: `${at}${MARKUP}`,
    name,
    description: `javascript:window.planted=1 ${MARKUP}`,
  },
  signal_ref: { scope: 'signal_source', signal_source_url: `https://${STRANGE}/mcp`, signal_id: `s_${at}` },
  ...{ signal_type: 'owned', data_provider: MARKUP, coverage_percentage: 0.004 },
  ...{ value_type: 'categorical', categories: ['low', MARKUP] },
  deployments: [
    {
      ...{ type: 'platform', platform: MARKUP, account: 'x'.repeat(60), is_live: true },
      activation_key: { type: 'segment_id', segment_id: MARKUP },
    },
  ],
  pricing_options: [
    {
      pricing_option_id: 'p',
      model: 'custom',
      description: MARKUP,
      currency: 'USD',
      metadata: { a: MARKUP },
    },
  ],
}))

/** One that is refused, and listed as such. */
const REFUSED = { ...ROWS[0], signal_agent_segment_id: `r${MARKUP}`, pricing_options: [{ model: MARKUP }] }

/** @type {import('../test/support/upstream-agent.js').TaskHandler} */
function answer(task) {
  if (task === 'get_signals') {
    const versions = { wholesale_feed_version: 'v', pricing_version: 'p' }
    return { status: 'completed', signals: [...ROWS, REFUSED], pagination: { has_more: false }, ...versions }
  }
  if (task !== 'activate_signal') return undefined
  const error = { code: 'INVALID_REQUEST', message: `No. ${MARKUP}`, recovery: 'terminal' }
  return { status: 'failed', adcp_error: error, errors: [error] }
}

/** @type {{ type: 'object' }} */
const object = { type: 'object' }
/** @type {import('../test/support/upstream-agent.js').ToolList} */
const TOOLS = [
  {
    name: 'get_signals',
    inputSchema: { type: 'object', properties: { discovery_mode: object, pagination: object } },
  },
  { name: 'activate_signal', inputSchema: object },
]

/** Tables that are wider than the place that they have. */
const SIDEWAYS = `[...document.querySelectorAll('.scroll')]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute('aria-label'))`

/** How many pixels the narrow sheets leave empty at the right. */
const EMPTY = `(() => {
  const sheets = document.querySelector('.sheets')
  const narrow = [...sheets.querySelectorAll(':scope > .sheet:not(.wide)')]
  return Math.round(sheets.getBoundingClientRect().right - narrow.at(-1).getBoundingClientRect().right)
})()`

/** @typedef {import('../test/support/federation.js').Signal} Signal */
/** @type {(body: Record<string, unknown>) => Signal[]} */
const signalsIn = ({ signals }) => /** @type {Signal[]} */ (signals)

test('what strangers write and what fails, on the page', { skip: NO_BROWSER }, async (t) => {
  const agent = await startMcpAgent(answer, undefined, TOOLS)
  t.teardown(agent.close)
  const down = await startHttp((_request, response) => void response.writeHead(503).end(), '')
  t.teardown(down.close)
  const world = await startWorld({
    signals: 96,
    config: (hosts) => ({
      registries: [
        { url: 'https://registry.signalcommons.example', refresh: '1m' },
        { url: `https://${DOWN}`, refresh: '1m' },
      ],
      upstreams: [{ id: 'strange', url: `https://${STRANGE}/mcp` }],
      egress: { hosts: { ...hosts, [STRANGE]: agent.origin, [DOWN]: down.origin } },
      callers: { anonymous: 'metadata', keys: KEYS },
    }),
  })
  t.teardown(() => world.close())
  const { url } = world.federation
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const { page, faults } = await openPage(browser, url)
  page.on('dialog', (dialog) => faults.push(`a dialog: ${dialog.message()}`) && dialog.dismiss())
  await page.goto(url)
  await enter(page, OPERATOR)

  const { body } = await read(url, 'signals?upstream=strange&sort=name', BUYER)
  const rows = signalsIn(body)
  const [row] = rows.filter(({ name }) => name === SCRIPT)
  /** @type {import('../test/support/federation.js').Answer} */
  const activated = await callTool(
    url,
    'activate_signal',
    {
      ...{ idempotency_key: randomUUID(), signal_agent_segment_id: row?.signal_agent_segment_id },
      pricing_option_id: row?.pricing_options?.[0]?.pricing_option_id,
      destinations: [{ type: 'platform', platform: MARKUP, account: 'x'.repeat(60) }],
    },
    BUYER,
  )
  t.equal(activated.status, 'failed')
  const { body: shared } = await read(
    url,
    'signals?provider=motorledger.example&sort=sellers&limit=1',
    OPERATOR,
  )
  const known = `/?signal=${signalsIn(shared)[0]?.signal_agent_segment_id}`
  const pages = [
    ...[
      '/?upstream=strange',
      '/?page=upstreams',
      '/?page=upstreams&id=strange',
      '/?page=activity',
      '/?page=audit',
    ],
    ...['/?page=providers', '/?page=callers', '/?page=server', known],
    ...rows.map(({ signal_agent_segment_id: handle }) => `/?signal=${handle}`),
  ]
  const ready = () =>
    page.waitForSelector('main table tbody tr:not(.u-series), main .facts > *, main .empty, main .way')

  await t.test('nothing of it runs, and no link leads into a script', async (t) => {
    t.equal(rows.length, NAMES.length, 'all of it is in the feed')
    for (const path of pages) {
      await page.goto(`${url}${path}`)
      await ready()
      t.equal(await page.evaluate('window.planted'), undefined, path)
      const links = await page
        .locator('a')
        .evaluateAll((all) => all.map((one) => /** @type {HTMLAnchorElement} */ (one).protocol))
      t.same(
        links.filter((one) => !one.startsWith('http')),
        [],
        path,
      )
    }
    t.same(faults, [])
  })

  await t.test('long names push no column out of sight, and a phone shows rows as cards', async (t) => {
    await page.setViewportSize({ width: 1_400, height: 900 })
    for (const path of pages) {
      await page.goto(`${url}${path}`)
      await ready()
      if (path !== known) t.same(await page.evaluate(SIDEWAYS), [], `${path} at 1400`)
      await page.setViewportSize({ width: 390, height: 900 })
      t.same(await page.evaluate(SIDEWAYS), [], `${path} at 390`)
      await page.setViewportSize({ width: 1_400, height: 900 })
    }
  })

  await t.test('a signal whose name cannot be seen can be opened, by its handle', async (t) => {
    const handle = String(rows.find(({ name }) => name === BLANK)?.signal_agent_segment_id)
    await page.goto(`${url}/?upstream=strange`)
    await page.getByRole('link', { name: handle }).click()
    await page.getByRole('heading', { name: handle }).waitFor()
    t.match(await page.title(), handle)
  })

  await t.test('a name of many marks is drawn over no other row', async (t) => {
    const handle = String(rows.find(({ name }) => String(name).startsWith('Z'))?.signal_agent_segment_id)
    await page.goto(`${url}/?upstream=strange`)
    const row = page.locator('tr', { has: page.locator(`a[href*="${handle}"]`) })
    await row.waitFor()
    const box = await row.boundingBox()
    assert.ok(box)
    const around = [
      { ...box, y: box.y - 20, height: 20 },
      { ...box, y: Math.ceil(box.y + box.height), height: 30 },
    ]
    const drawn = async () => {
      const images = []
      for (const clip of around) images.push((await page.screenshot({ clip })).toString('base64'))
      return images
    }
    const before = await drawn()
    await row.evaluate((one) => one.style.setProperty('visibility', 'hidden'))
    t.same(await drawn(), before)
  })

  await t.test('in the colours of the reader the page that is open is marked', async (t) => {
    await page.emulateMedia({ forcedColors: 'active' })
    await page.goto(`${url}/?page=server`)
    await page.waitForSelector('dd .state')
    const edges = await page
      .locator('nav a')
      .evaluateAll((all) => all.map((one) => getComputedStyle(one).borderBottomColor))
    t.equal(edges.filter((edge) => edge === edges[0]).length, edges.length - 1)
    await page.emulateMedia({ forcedColors: 'none' })
  })

  await t.test('no state is cut off on a small phone', async (t) => {
    await page.setViewportSize({ width: 360, height: 740 })
    await page.goto(`${url}/?page=server`)
    await page.waitForSelector('dd .state')
    const ends = await page
      .locator('.facts .state')
      .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right))
    t.same(
      ends.filter((end) => end > 360),
      [],
    )
    await page.setViewportSize({ width: 1_400, height: 900 })
  })

  await t.test('a table stays a table for who hears it, on a phone too', async (t) => {
    await page.setViewportSize({ width: 390, height: 900 })
    await page.goto(`${url}${known}`)
    await ready()
    const devtools = await page.context().newCDPSession(page)
    const { nodes } = await devtools.send('Accessibility.getFullAXTree')
    const roles = nodes.filter(({ ignored }) => !ignored).map(({ role }) => role?.value)
    for (const role of ['table', 'row', 'cell', 'rowheader']) t.ok(roles.includes(role), role)
    t.equal((await page.locator('td[data-label="Verdict"]').count()) > 0, true, 'each cell says its column')
  })

  await t.test('on a wall the sheets take the room that there is', async (t) => {
    await page.setViewportSize({ width: 3_840, height: 2_160 })
    for (const path of [known, '/?page=server', '/?page=upstreams&id=strange']) {
      await page.goto(`${url}${path}`)
      await page.waitForSelector('.sheets > .sheet:not(.wide)')
      t.ok(Math.abs(await page.evaluate(EMPTY)) <= 2, path)
    }
    const share = await page.evaluate("document.querySelector('.sheets').clientWidth / innerWidth")
    t.ok(share > 0.75, `${share} of the width`)
    await page.setViewportSize({ width: 1_400, height: 900 })
  })

  await t.test('what differs is marked, also where it is made of parts', async (t) => {
    let found = 0
    const { body: numeric } = await read(
      url,
      'signals?provider=motorledger.example&value_type=numeric',
      OPERATOR,
    )
    for (const { signal_agent_segment_id: handle } of signalsIn(numeric)) {
      await page.goto(`${url}/?signal=${handle}`)
      await page.waitForSelector('[aria-label="Definition"] tbody tr')
      const marked = page.locator('.differs:has(.tree)')
      if ((await marked.count()) === 0) continue
      found += 1
      const display = await marked.first().evaluate((one) => getComputedStyle(one).display)
      t.equal(display, 'block', 'its ground is drawn')
      await page.emulateMedia({ forcedColors: 'active' })
      const line = await marked.first().evaluate((one) => getComputedStyle(one).borderTopStyle)
      t.equal(line, 'dashed', 'and where no ground is drawn, a line')
      await page.emulateMedia({ forcedColors: 'none' })
      break
    }
    t.equal(found, 1, 'there is such a signal')
  })

  await t.test('trouble is told in words, with what can change it', async () => {
    await page.goto(`${url}/?page=upstreams`)
    const registry = page.getByRole('region', { name: 'Registries' }).locator('tr', { hasText: DOWN })
    await registry.getByText('it answers that it has failed').waitFor()
    await registry.getByText('To be changed by: whoever runs it').waitFor()
    await page.goto(`${url}/?signal=signals.fogbank.example`)
    await page.locator('.in-trouble', { hasText: 'no connection can be made to it' }).waitFor()
  })

  await t.test('an activation that failed says of what, to where, and why', async () => {
    await page.goto(`${url}/?page=activity`)
    const failed = page.getByRole('region', { name: 'Activations' }).locator('tr', { hasText: SCRIPT })
    await failed.getByText('The upstream that offers this refused the request.').waitFor()
    await failed.getByText(MARKUP, { exact: false }).waitFor()
  })

  await t.test('a page that is answered by a proxy for a while hears the server again', async () => {
    const path = '**/console/api/live'
    await page.route(path, (route) => route.fulfill({ status: 503, body: 'starting' }))
    await page.goto(`${url}/?page=server`)
    await page.waitForSelector('.lost')
    await page.unroute(path)
    await page.locator('.lost').waitFor({ state: 'detached' })
  })

  await t.test('how long ago something was stays true while the page stands', async (t) => {
    await page.clock.install()
    await page.goto(`${url}/?page=providers`)
    const confirmed = page.locator('tr', { hasText: 'motorledger.example' }).locator('time').first()
    await confirmed.waitFor()
    t.notMatch(await confirmed.textContent(), /hours/)
    await page.clock.fastForward('03:00:00')
    await confirmed.filter({ hasText: /[34] hours ago/ }).waitFor()
    t.match(await confirmed.getAttribute('title'), /\d{4}.*\d+:\d\d/, 'the exact time is its title')
  })

  await t.test('a page that cannot be drawn says so, and leaves the others', async () => {
    await page.route('**/console/api/callers', (route) => route.fulfill({ json: { callers: [{}] } }))
    await page.getByRole('link', { name: 'Callers' }).click()
    await page.getByRole('alert').filter({ hasText: 'cannot be drawn' }).waitFor()
    await page.getByRole('link', { name: 'Server' }).click()
    await page.waitForSelector('main .facts')
  })
})
